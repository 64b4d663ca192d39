// Finds the trace, then a replay for each policy and seed.
#include "simulation/experiment.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "simulation/trace_file.h"

namespace remontoir {
namespace {

constexpr double kWarmUpShare = 0.1;

Result<std::string> TraceFile(const StreamRecipe& recipe, const std::string& trace) {
  const std::filesystem::path wanted(recipe.trace);
  if (trace.empty()) {
    std::error_code error;
    if (std::filesystem::exists(wanted, error)) return recipe.trace;
    return InvalidArgument("stream " + recipe.name + " needs " + recipe.trace +
                           ": give it, or a folder with it, by --trace");
  }
  std::error_code error;
  if (!std::filesystem::is_directory(trace, error)) return trace;
  return (std::filesystem::path(trace) / wanted.filename()).string();
}

}  // namespace

Result<Experiment> MakeExperiment(StreamRecipe recipe, const std::string& trace) {
  Experiment experiment;
  if (!recipe.trace.empty()) {
    REM_ASSIGN_OR_RETURN(const std::string file, TraceFile(recipe, trace));
    REM_ASSIGN_OR_RETURN(experiment.trace, ReadTrace(file));
  }
  experiment.recipe = std::move(recipe);
  return experiment;
}

Result<Replayed> RunSeed(const Experiment& experiment, SchedulingPolicy policy, uint64_t seed) {
  const std::vector<Arrival> stream = MakeStream(experiment.recipe, experiment.trace, seed);
  ReplayOptions options;
  options.scheduler = experiment.scheduler;
  options.scheduler.policy = policy;
  options.predictor = experiment.predictor;
  options.machine = experiment.recipe.machine;
  options.clients = experiment.clients;
  options.seed = seed;
  options.first_token_us_max = experiment.first_token_us_max;
  const bool closed = experiment.clients.count > 0;
  return Replay(closed ? std::span(stream) : Tail(stream, experiment.from), options);
}

Result<PolicyRuns> RunPolicy(const Experiment& experiment, SchedulingPolicy policy,
                             uint64_t seed_first, int32_t seeds) {
  PolicyRuns result;
  result.policy = policy;
  for (int32_t i = 0; i < seeds; ++i) {
    REM_ASSIGN_OR_RETURN(const Replayed replayed,
                         RunSeed(experiment, policy, seed_first + static_cast<uint64_t>(i)));
    result.hold_us_max = std::max(result.hold_us_max, replayed.hold_us_max);
    int64_t from_us = INT64_MIN;
    int64_t to_us = INT64_MAX;
    if (experiment.clients.count > 0) {
      to_us = static_cast<int64_t>(experiment.clients.seconds * 1e6);
      from_us = static_cast<int64_t>(experiment.clients.seconds * 1e6 * kWarmUpShare);
    }
    result.runs.push_back(MetricsOf(replayed, from_us, to_us));
    for (const RequestRecord& record : replayed.requests) {
      if (record.first_token_us >= 0 && record.arrived_us >= from_us) {
        result.ttft_ms.push_back(static_cast<double>(record.first_token_us) / 1000);
      }
    }
    for (const TokenGap& gap : replayed.gaps) {
      if (replayed.requests[static_cast<size_t>(gap.request)].arrived_us >= from_us) {
        result.itl_ms.push_back(static_cast<double>(gap.us) / 1000);
      }
    }
  }
  return result;
}

}  // namespace remontoir
