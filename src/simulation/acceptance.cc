// Plays each stream once per policy and seed, then reads the lines off.
#include "simulation/acceptance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "api/json_writer.h"
#include "scheduler/cost_file.h"
#include "simulation/experiment.h"

namespace remontoir {
namespace {

constexpr SchedulingPolicy kAdaptive = SchedulingPolicy::kAdaptive;
constexpr SchedulingPolicy kImmediate = SchedulingPolicy::kImmediate;
constexpr SchedulingPolicy kFixed = SchedulingPolicy::kFixed;
constexpr SchedulingPolicy kLegacy = SchedulingPolicy::kLegacy;

double Mean(const RunMetrics& r) { return r.ttft_ms.mean; }
double P95(const RunMetrics& r) { return r.ttft_ms.p95; }
double P99(const RunMetrics& r) { return r.ttft_ms.p99; }
double Std(const RunMetrics& r) { return r.ttft_ms.std; }
double Stall(const RunMetrics& r) { return r.stall_ms; }
double TokensPerS(const RunMetrics& r) { return r.tokens_per_s; }

class Judge {
 public:
  explicit Judge(const AcceptanceOptions& options) : options_(options) {}

  std::vector<AcceptanceLine> lines;

  Result<Experiment> ExperimentOf(const std::string& stream) const {
    REM_ASSIGN_OR_RETURN(StreamRecipe recipe, StreamNamed(stream));
    // Costs that one machine's engine learnt say nothing about the other.
    if (!options_.costs.empty() && stream[4] == 'C') {
      REM_ASSIGN_OR_RETURN(recipe.machine.costs, ReadCostFile(options_.costs));
    }
    REM_ASSIGN_OR_RETURN(Experiment experiment, MakeExperiment(std::move(recipe), options_.trace));
    experiment.scheduler = options_.scheduler;
    experiment.predictor = options_.predictor;
    return experiment;
  }

  Status Play(const char* stream, std::initializer_list<SchedulingPolicy> policies) {
    REM_ASSIGN_OR_RETURN(const Experiment experiment, ExperimentOf(stream));
    decode_step_ms_[stream] = DecodeStepMs(experiment.recipe.machine);
    for (const SchedulingPolicy policy : policies) {
      REM_ASSIGN_OR_RETURN(runs_[std::make_pair(std::string(stream), policy)],
                           RunPolicy(experiment, policy, options_.seed_first, options_.seeds));
    }
    return Status::Ok();
  }

  void Ratio(const char* what, const char* stream, SchedulingPolicy base,
             double (*number)(const RunMetrics&), double bound) {
    const PolicyRuns& adaptive = Runs(stream, kAdaptive);
    lines.push_back({"adaptive / " + std::string(Name(base)) + ", " + what + ": " + stream,
                     MeanRatio(adaptive, Runs(stream, base), number), bound});
  }

  void Gaps(const char* stream) {
    lines.push_back({std::string("adaptive, ITL P99 (ms): ") + stream,
                     MeanOf(Runs(stream, kAdaptive).runs).itl_ms.p99,
                     120 + decode_step_ms_[stream]});
  }

  void Hold(const char* stream) {
    lines.push_back({std::string("adaptive, deliberate hold (ms): ") + stream,
                     static_cast<double>(Runs(stream, kAdaptive).hold_us_max) / 1000, 0});
  }

  Status Saturation();
  Status Pulse();
  Status Forecast(const char* stream);

 private:
  static double DecodeStepMs(const Machine& machine) {
    RoundWork work;
    work.decode_rows = machine.slots;
    return machine.costs.PredictUs(work) / 1000;
  }

  const PolicyRuns& Runs(const char* stream, SchedulingPolicy policy) const {
    return runs_.at({stream, policy});
  }

  const AcceptanceOptions options_;
  std::map<std::pair<std::string, SchedulingPolicy>, PolicyRuns> runs_;
  std::map<std::string, double> decode_step_ms_;
};

Status Judge::Saturation() {
  for (const int32_t clients : {16, 50}) {
    REM_ASSIGN_OR_RETURN(Experiment experiment, ExperimentOf("convC60"));
    experiment.clients = {.count = clients, .think_s = 0, .seconds = 900};
    REM_ASSIGN_OR_RETURN(const PolicyRuns adaptive,
                         RunPolicy(experiment, kAdaptive, options_.seed_first, options_.seeds));
    REM_ASSIGN_OR_RETURN(const PolicyRuns legacy,
                         RunPolicy(experiment, kLegacy, options_.seed_first, options_.seeds));
    const std::string who = std::to_string(clients) + " clients without a pause";
    lines.push_back(
        {"adaptive, utilisation: " + who, MeanOf(adaptive.runs).utilisation, 0.97, true});
    lines.push_back(
        {"adaptive / legacy, tok/s: " + who, MeanRatio(adaptive, legacy, TokensPerS), 1.05, true});
  }
  return Status::Ok();
}

// 50 clients, then 100, who think so long that the machine is at most 0.47 busy afterwards.
Status Judge::Pulse() {
  REM_ASSIGN_OR_RETURN(Experiment experiment, ExperimentOf("convC60"));
  experiment.clients = {.count = 50, .think_s = 120, .seconds = 7200, .count_late = 100};
  std::vector<RunMetrics> before;
  std::vector<RunMetrics> after;
  for (int32_t i = 0; i < options_.seeds; ++i) {
    REM_ASSIGN_OR_RETURN(
        const Replayed replayed,
        RunSeed(experiment, kAdaptive, options_.seed_first + static_cast<uint64_t>(i)));
    constexpr int64_t kJumpUs = 3'600'000'000;
    before.push_back(MetricsOf(replayed, kJumpUs / 10, kJumpUs));
    after.push_back(MetricsOf(replayed, kJumpUs, 2 * kJumpUs));
  }
  const RunMetrics mean_after = MeanOf(after);
  std::array<char, 96> what;
  std::snprintf(what.data(), what.size(), "pulse, 50 to 100 clients, %.2f busy after: TTFT P95",
                mean_after.busy);
  lines.push_back({what.data(), mean_after.ttft_ms.p95 / MeanOf(before).ttft_ms.p95, 1.07});
  return Status::Ok();
}

// How far mean TTFT with the forecast lies from what the state alone reaches at the same stall,
// read between runs whose stalls weigh differently.
Status Judge::Forecast(const char* stream) {
  REM_ASSIGN_OR_RETURN(Experiment experiment, ExperimentOf(stream));
  const auto play = [&](double kappa, double omega) -> Result<RunMetrics> {
    experiment.scheduler.stall_weight = kappa;
    experiment.scheduler.forecast_weight = omega;
    REM_ASSIGN_OR_RETURN(const PolicyRuns runs,
                         RunPolicy(experiment, kAdaptive, options_.seed_first, options_.seeds));
    return MeanOf(runs.runs);
  };
  REM_ASSIGN_OR_RETURN(const RunMetrics on, play(0.3, 0.3));
  std::vector<std::pair<double, double>> frontier;  // stall, mean TTFT
  for (const double kappa : {0.1, 0.2, 0.3, 0.4, 0.6, 1.0}) {
    REM_ASSIGN_OR_RETURN(const RunMetrics off, play(kappa, 0));
    frontier.emplace_back(off.stall_ms, off.ttft_ms.mean);
  }
  std::ranges::sort(frontier);
  const auto above =
      std::ranges::find_if(frontier, [&](const auto& point) { return point.first >= on.stall_ms; });
  double off_mean = frontier.back().second;
  if (above != frontier.end()) {
    off_mean = above->second;
    if (above != frontier.begin()) {
      const auto below = above - 1;
      const double part = (on.stall_ms - below->first) / (above->first - below->first);
      off_mean = below->second + part * (above->second - below->second);
    }
  }
  lines.push_back({std::string("forecast on / off at equal stall, |mean TTFT - 1|: ") + stream,
                   std::abs(on.ttft_ms.mean / off_mean - 1), 0.01});
  return Status::Ok();
}

void ReadRatios(Judge& judge) {
  const std::pair<const char*, double> means[] = {
      {"convC30", .97}, {"convC60", .95}, {"codeC30", .88}, {"mmppC60", .86}, {"codeG30", .92}};
  for (const auto& [stream, bound] : means) {
    judge.Ratio("mean TTFT", stream, kImmediate, Mean, bound);
  }
  judge.Ratio("P95", "convC60", kImmediate, P95, .95);
  judge.Ratio("P95", "mmppC60", kImmediate, P95, .87);
  judge.Ratio("TTFT std", "convC60", kImmediate, Std, 1.0);
  judge.Ratio("TTFT std", "mmppC60", kImmediate, Std, .92);
  for (const char* stream : {"convC30", "convC60", "codeC30", "mmppC60", "convG60", "codeG30"}) {
    judge.Ratio("P99", stream, kImmediate, P99, 1.15);
  }
  judge.Ratio("mean TTFT", "convC30", kFixed, Mean, .55);
  judge.Ratio("mean TTFT", "convC60", kFixed, Mean, .60);
  for (const char* stream : {"convC30", "convC60", "codeC30", "mmppC60", "convG60", "codeG30"}) {
    judge.Gaps(stream);
  }
  judge.Ratio("mean TTFT", "convG60", kImmediate, Mean, 1.05);
  judge.Ratio("stall", "convG60", kImmediate, Stall, .87);
}

}  // namespace

Result<std::vector<AcceptanceLine>> RunAcceptance(const AcceptanceOptions& options) {
  Judge judge(options);
  REM_RETURN_IF_ERROR(judge.Play("convC30", {kImmediate, kAdaptive, kFixed}));
  REM_RETURN_IF_ERROR(judge.Play("convC60", {kImmediate, kAdaptive, kFixed}));
  for (const char* stream : {"codeC30", "mmppC60", "convG60", "codeG30"}) {
    REM_RETURN_IF_ERROR(judge.Play(stream, {kImmediate, kAdaptive}));
  }
  ReadRatios(judge);
  for (const char* stream : {"convC60", "mmppC60"}) {
    REM_RETURN_IF_ERROR(judge.Forecast(stream));
  }
  REM_RETURN_IF_ERROR(judge.Saturation());
  REM_RETURN_IF_ERROR(judge.Pulse());
  for (const char* stream : {"convC30", "convC60", "codeC30", "mmppC60", "convG60", "codeG30"}) {
    judge.Hold(stream);
  }
  return std::move(judge.lines);
}

std::string AcceptanceTable(std::span<const AcceptanceLine> lines) {
  std::string text;
  int met = 0;
  for (const AcceptanceLine& line : lines) {
    std::array<char, 256> row;
    std::snprintf(row.data(), row.size(), "%-66s %9.3f  %s %8.3f  %s\n", line.what.c_str(),
                  line.simulated, line.at_least ? ">=" : "<=", line.bound,
                  line.met() ? "met" : "NOT MET");
    text += row.data();
    met += line.met() ? 1 : 0;
  }
  return text + std::to_string(met) + " of " + std::to_string(lines.size()) + " met\n";
}

std::string AcceptanceJson(std::span<const AcceptanceLine> lines) {
  JsonWriter json;
  json.BeginArray();
  for (const AcceptanceLine& line : lines) {
    std::array<char, 48> number;
    std::snprintf(number.data(), number.size(), "%.6f", line.simulated);
    json.BeginObject().Key("what").String(line.what).Key("simulated").Raw(number.data());
    std::snprintf(number.data(), number.size(), "%.6f", line.bound);
    json.Key(line.at_least ? "at_least" : "at_most").Raw(number.data());
    json.Key("met").Bool(line.met()).EndObject();
  }
  return json.EndArray().Take() + "\n";
}

}  // namespace remontoir
