// The two assumed machines, and costs from a file.
#include "simulation/machine.h"

#include <boost/json.hpp>
#include <string>
#include <utility>

#include "config/load.h"

namespace remontoir {
namespace {

constexpr double kCostUsMax = 1e9;

Status ReadCost(const boost::json::object& object, const char* key, double& cost) {
  const boost::json::value* const value = object.if_contains(key);
  if (value == nullptr) return InvalidArgument(std::string(key) + ": is missing");
  boost::system::error_code error;
  cost = value->to_number<double>(error);
  if (error || !(cost >= 0 && cost <= kCostUsMax)) {
    return InvalidArgument(std::string(key) + ": wants microseconds from 0 to 1e9");
  }
  return Status::Ok();
}

}  // namespace

Result<Machine> MachineNamed(std::string_view name) {
  if (name == "cpu") return Machine{};
  if (name == "gpu") {
    return Machine{.costs = {.round_us = 14'000,
                             .prefill_token_us = 50,
                             .decode_row_us = 100,
                             .decode_key_us = 0.04,
                             .prefill_key_us = 0.0016},
                   .slots = 32};
  }
  return NotFound(std::string(name) + ": is no machine: cpu or gpu");
}

Result<CostModel> ParseCosts(std::string_view json, const std::string& name) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  if (error || !parsed.is_object()) return InvalidArgument(name + ": wants a JSON object of costs");
  const boost::json::object& object = parsed.get_object();
  CostModel costs;
  const std::pair<const char*, double*> terms[] = {{"round_us", &costs.round_us},
                                                   {"prefill_token_us", &costs.prefill_token_us},
                                                   {"decode_row_us", &costs.decode_row_us},
                                                   {"decode_key_us", &costs.decode_key_us},
                                                   {"prefill_key_us", &costs.prefill_key_us}};
  for (const auto& [key, cost] : terms) {
    REM_RETURN_IF_ERROR(ReadCost(object, key, *cost).WithContext(name));
  }
  // Rounds take time, or the simulated clock would stand still.
  if (costs.round_us < 1) return InvalidArgument(name + ": round_us: must be at least 1");
  return costs;
}

Result<CostModel> ReadCosts(const std::string& path) {
  REM_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  return ParseCosts(text, path);
}

}  // namespace remontoir
