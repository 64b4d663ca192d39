// Sums over predictions, and their divergences for the percentile.
#include "eval/prediction_meter.h"

#include <algorithm>
#include <cmath>

#include "sampling/logprobs.h"

namespace remontoir {

double PredictionDistance::perplexity_change() const {
  return predictions == 0 ? 0 : perplexity / perplexity_reference - 1;
}

void PredictionMeter::Add(std::span<const float> reference, std::span<const float> other,
                          int32_t next) {
  const double reference_sum = LogSumExp(reference);
  const double other_sum = LogSumExp(other);
  double divergence = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double logprob = reference[i] - reference_sum;
    divergence += std::exp(logprob) * (logprob - (other[i] - other_sum));
  }
  divergences_.push_back(std::max(0.0, divergence));
  loss_reference_ += reference_sum - reference[static_cast<size_t>(next)];
  loss_ += other_sum - other[static_cast<size_t>(next)];
  const auto top = [](std::span<const float> logits) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  same_top_ += top(reference) == top(other) ? 1 : 0;
}

PredictionDistance PredictionMeter::Get() const {
  PredictionDistance distance;
  distance.predictions = std::ssize(divergences_);
  if (distance.predictions == 0) return distance;
  const auto count = static_cast<double>(distance.predictions);
  distance.perplexity_reference = std::exp(loss_reference_ / count);
  distance.perplexity = std::exp(loss_ / count);
  distance.top1_agreement = static_cast<double>(same_top_) / count;
  for (const double divergence : divergences_) distance.kl_mean += divergence / count;
  std::vector<double> sorted = divergences_;
  const auto rank = static_cast<std::ptrdiff_t>(0.99 * (count - 1));
  std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
  distance.kl_p99 = sorted[static_cast<size_t>(rank)];
  return distance;
}

}  // namespace remontoir
