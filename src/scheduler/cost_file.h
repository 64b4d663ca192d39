// Costs on disk: what one run of a server learnt, for the next to begin with.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "scheduler/cost_model.h"

namespace remontoir {

// A JSON object with the six numbers of CostModel by their names, in microseconds; seal_us may be
// missing, and other keys are passed over. A round takes a microsecond at least, or a simulated
// clock would stand still. Errors name `name` and the key.
Result<CostModel> ParseCosts(std::string_view json, const std::string& name);
std::string WriteCosts(const CostModel& costs);

// kNotFound: there is no such file.
Result<CostModel> ReadCostFile(const std::string& path);
// Whole or not at all: by a temporary file beside it.
Status WriteCostFile(const CostModel& costs, const std::string& path);

}  // namespace remontoir
