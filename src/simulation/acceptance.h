// The specification's lines about scheduling, played and judged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "predictor/arrival_predictor.h"
#include "scheduler/policy.h"

namespace remontoir {

struct AcceptanceOptions {
  std::string trace;  // the folder with azure2023_conv.csv and azure2023_code.csv
  std::string costs;  // a file, for the streams on `cpu`; empty: the specification's
  uint64_t seed_first = 1;
  int32_t seeds = 8;
  SchedulerOptions scheduler;
  std::optional<ArrivalPredictor> predictor = {};
};

struct AcceptanceLine {
  std::string what;
  double simulated = 0;
  double bound = 0;
  bool at_least = false;  // else at most
  bool met() const { return at_least ? simulated >= bound : simulated <= bound; }
};

// A line for each stream that a check of the specification names.
Result<std::vector<AcceptanceLine>> RunAcceptance(const AcceptanceOptions& options);

std::string AcceptanceTable(std::span<const AcceptanceLine> lines);
std::string AcceptanceJson(std::span<const AcceptanceLine> lines);

}  // namespace remontoir
