// Six numbers by their names.
#include "scheduler/cost_file.h"

#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

namespace remontoir {
namespace {

constexpr double kCostUsMax = 1e9;
constexpr std::streamsize kFileBytesMax = 64 << 10;

struct Term {
  const char* name;
  double CostModel::*cost;
  bool required = true;  // files of before it was known have no other
};
constexpr std::array<Term, 6> kTerms = {{{"round_us", &CostModel::round_us},
                                         {"prefill_token_us", &CostModel::prefill_token_us},
                                         {"decode_row_us", &CostModel::decode_row_us},
                                         {"decode_key_us", &CostModel::decode_key_us},
                                         {"prefill_key_us", &CostModel::prefill_key_us},
                                         {"seal_us", &CostModel::seal_us, false}}};

}  // namespace

Result<CostModel> ParseCosts(std::string_view json, const std::string& name) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  if (error || !parsed.is_object()) return InvalidArgument(name + ": wants a JSON object of costs");
  CostModel costs;
  for (const Term& term : kTerms) {
    const boost::json::value* const value = parsed.get_object().if_contains(term.name);
    if (value == nullptr && !term.required) continue;
    if (value == nullptr) return InvalidArgument(name + ": " + term.name + ": is missing");
    const double cost = value->to_number<double>(error);
    if (error || !(cost >= 0 && cost <= kCostUsMax)) {
      return InvalidArgument(name + ": " + term.name + ": wants microseconds from 0 to 1e9");
    }
    costs.*term.cost = cost;
  }
  if (costs.round_us < 1) return InvalidArgument(name + ": round_us: must be at least 1");
  return costs;
}

std::string WriteCosts(const CostModel& costs) {
  boost::json::object object;
  for (const Term& term : kTerms) object[term.name] = costs.*term.cost;
  return boost::json::serialize(object) + "\n";
}

Result<CostModel> ReadCostFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path + ": can't be opened");
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() > kFileBytesMax) return InvalidArgument(path + ": is too long for costs");
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseCosts(text, path);
}

Status WriteCostFile(const CostModel& costs, const std::string& path) {
  const std::string temporary = path + ".new";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << WriteCosts(costs);
    file.flush();
    if (!file) return IoError(temporary + ": can't be written");
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) return IoError(path + ": can't be given its name: " + error.message());
  return Status::Ok();
}

}  // namespace remontoir
