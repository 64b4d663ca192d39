// Declares the counters that a model's layers and experts ask for.
#include "backend/expert_load.h"

#include <algorithm>
#include <string>
#include <variant>

namespace remontoir {
namespace {

std::vector<std::string> Numbers(std::span<const int32_t> numbers) {
  std::vector<std::string> texts;
  for (const int32_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

}  // namespace

ExpertLoad::ExpertLoad(std::span<const int32_t> layers, int32_t experts)
    : layers_(layers.begin(), layers.end()), experts_(experts) {
  const auto count = static_cast<size_t>(experts);
  if (layers.empty() || count < 1 || count > kSamplesMax) return;
  all_layers_ = layers.size() * count > kSamplesMax;
  const std::vector<std::string> rows =
      all_layers_ ? std::vector<std::string>{"all"} : Numbers(layers);
  std::vector<int32_t> numbers(count);
  for (int32_t e = 0; e < experts; ++e) numbers[static_cast<size_t>(e)] = e;
  const std::vector<std::string> columns = Numbers(numbers);
  rows_ = &AddCounters(
      {"remontoir_expert_rows_total", "Rows that a layer's router sent to an expert"},
      {"layer", {rows.begin(), rows.end()}}, {"expert", {columns.begin(), columns.end()}});
}

int32_t ExpertLoad::PlaceOf(int32_t layer) const {
  const auto found = std::ranges::find(layers_, layer);
  REM_CHECK(found != layers_.end(), "a layer that routes");
  return all_layers_ ? 0 : static_cast<int32_t>(found - layers_.begin());
}

std::unique_ptr<ExpertLoad> MakeExpertLoad(const Program& program) {
  std::vector<int32_t> layers;
  int32_t experts = 0;
  for (const Operation& operation : program.operations) {
    const auto* op = std::get_if<RouteOp>(&operation);
    if (op == nullptr) continue;
    layers.push_back(op->layer);
    experts = std::max(experts, op->experts);
  }
  if (layers.empty()) return nullptr;
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return std::make_unique<ExpertLoad>(layers, experts);
}

}  // namespace remontoir
