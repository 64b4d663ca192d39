// A stream under several policies and seeds, and what came of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/policy.h"
#include "simulation/replay.h"
#include "simulation/run_metrics.h"
#include "simulation/stream.h"

namespace remontoir {

// The share of a stream's time from which on it is played: nobody chose a number by the last
// quarter.
inline constexpr double kHeldOutFrom = 0.75;

struct Experiment {
  StreamRecipe recipe;
  std::vector<Arrival> trace;  // empty where the recipe names none
  double from = kHeldOutFrom;  // of an open loop
  SchedulerOptions scheduler;  // its policy is the run's
  std::optional<ArrivalPredictor> predictor = {};
  Clients clients;
  int64_t first_token_us_max = 0;
};

// Reads what the recipe needs: `trace` is its file, or a folder with it, or empty.
Result<Experiment> MakeExperiment(StreamRecipe recipe, const std::string& trace);

Result<Replayed> RunSeed(const Experiment& experiment, SchedulingPolicy policy, uint64_t seed);

struct PolicyRuns {
  SchedulingPolicy policy = SchedulingPolicy::kImmediate;
  std::vector<RunMetrics> runs;  // a seed each
  int64_t hold_us_max = 0;       // of any sequence
  // Of all seeds.
  std::vector<double> ttft_ms;
  std::vector<double> itl_ms;
};

// Seeds seed_first, seed_first + 1, ... Closed loops are measured without their first tenth.
Result<PolicyRuns> RunPolicy(const Experiment& experiment, SchedulingPolicy policy,
                             uint64_t seed_first, int32_t seeds);

// The mean over seeds of number(run) / number(base's run); 0 where a base is 0.
template <class Number>
double MeanRatio(const PolicyRuns& runs, const PolicyRuns& base, Number number) {
  double sum = 0;
  for (size_t i = 0; i < runs.runs.size(); ++i) {
    const double below = number(base.runs[i]);
    if (below == 0) return 0;
    sum += number(runs.runs[i]) / below;
  }
  return runs.runs.empty() ? 0 : sum / static_cast<double>(runs.runs.size());
}

}  // namespace remontoir
