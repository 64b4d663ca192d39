// Counts a round's work and lets its time pass.
#include "simulation/simulated_runner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace remontoir {
namespace {

constexpr std::array<float, SimulatedRunner::kVocabulary> kLogits = {1, 0};

ModelShape ShapeOfNothing() {
  ModelShape shape;
  shape.vocabulary_size = SimulatedRunner::kVocabulary;
  return shape;
}

}  // namespace

RoundWork WorkOf(std::span<const BatchSequence> batch) {
  RoundWork work;
  for (const BatchSequence& sequence : batch) {
    work.seals += sequence.seals.value_or(SealRange{}).count();
    const bool decodes =
        sequence.tokens.size() == 1 && sequence.logits_begin == 0 && sequence.first_position > 0;
    if (decodes) {
      work.AddDecode(int64_t{sequence.first_position} + 1);
    } else {
      work.AddPrefill(static_cast<int64_t>(sequence.tokens.size()), sequence.first_position);
    }
  }
  return work;
}

SimulatedRunner::SimulatedRunner(const RoundLimits& limits, const CostModel& costs,
                                 std::function<void(int64_t us)> pass)
    : ModelRunner(ShapeOfNothing(), limits), costs_(costs), pass_(std::move(pass)) {}

void SimulatedRunner::Run(std::span<const BatchSequence> batch) {
  pass_(std::max<int64_t>(1, std::llround(costs_.PredictUs(WorkOf(batch)))));
}

std::span<const float> SimulatedRunner::Logits(int32_t) const { return kLogits; }

}  // namespace remontoir
