// Tables and JSON of policies side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "simulation/experiment.h"

namespace remontoir {

struct ReportHeader {
  std::string stream;
  uint64_t seed_first = 1;
  int32_t seeds = 1;
  Clients clients = {};
  SchedulerOptions scheduler = {};
  Machine machine = {};
};

// Text. The second table holds ratios to `immediate`, where that is among the policies.
std::string ReportTables(const ReportHeader& header, std::span<const PolicyRuns> policies);

// One object, a line.
std::string ReportJson(const ReportHeader& header, std::span<const PolicyRuns> policies);

}  // namespace remontoir
