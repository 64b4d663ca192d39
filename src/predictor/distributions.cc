// Classes by recurrence from P(0); the last one is what remains.
#include "predictor/distributions.h"

#include <algorithm>
#include <limits>

namespace remontoir {
namespace {

constexpr double kProbabilityMin = 1e-12;

// From P(0) and the ratio P(k + 1) / P(k).
template <class Ratio>
ClassProbabilities ByRecurrence(double zero, const Ratio& ratio) {
  ClassProbabilities classes{};
  double probability = zero;
  double rest = 1.0;
  for (int k = 0; k + 1 < kForecastClasses; ++k) {
    classes[static_cast<size_t>(k)] = static_cast<float>(probability);
    rest -= probability;
    probability *= ratio(k);
  }
  classes.back() = static_cast<float>(std::max(0.0, rest));
  return classes;
}

}  // namespace

ClassProbabilities PoissonClasses(double mean) {
  return ByRecurrence(std::exp(-mean), [mean](int k) { return mean / (k + 1); });
}

ClassProbabilities NegativeBinomialClasses(const NegativeBinomial& distribution) {
  const double mean = std::exp(distribution.log_mean);
  const double size = std::exp(distribution.log_size);
  const double share = mean / (size + mean);
  const double zero = std::exp(-size * std::log1p(mean / size));
  return ByRecurrence(zero, [=](int k) { return (size + k) / (k + 1) * share; });
}

double LogLoss(const ClassProbabilities& probabilities, int arrivals) {
  const int index = std::clamp(arrivals, 0, kForecastClasses - 1);
  const double probability = probabilities[static_cast<size_t>(index)];
  return -std::log(std::max(probability, kProbabilityMin));
}

NegativeBinomial DistributionOf(double base, double mean_output, double size_output) {
  return {std::clamp(std::log(base) + mean_output, kLogMeanMin, kLogMeanMax),
          std::clamp(kLogSizeBase + size_output, kLogSizeMin, kLogSizeMax)};
}

}  // namespace remontoir
