// Counts with 17 classes (0 to 15, 16 and more): Poisson, negative binomial, their losses.
#pragma once

#include <array>
#include <cmath>

#include "predictor/forecast.h"

namespace remontoir {

using ClassProbabilities = std::array<float, kForecastClasses>;

// Of a Poisson variable with this mean (>= 0).
ClassProbabilities PoissonClasses(double mean);

// Negative binomial with mean e^log_mean and variance mean + mean^2 / size, size = e^log_size.
struct NegativeBinomial {
  double log_mean = 0.0;
  double log_size = 0.0;
};

ClassProbabilities NegativeBinomialClasses(const NegativeBinomial& distribution);

// -ln P(arrivals), arrivals in their class. A probability of 0 counts as 1e-12.
double LogLoss(const ClassProbabilities& probabilities, int arrivals);

// What the network's two outputs mean: a correction of the moving average and a size. Bounds keep
// any weights' forecasts finite.
inline constexpr double kLogMeanMin = -12.0;
inline constexpr double kLogMeanMax = 4.0;
inline constexpr double kLogSizeMin = -4.0;
inline constexpr double kLogSizeMax = 6.0;
inline constexpr double kLogSizeBase = 1.0;  // with a zero output

NegativeBinomial DistributionOf(double base, double mean_output, double size_output);

// The mean of the next 100 ms by a moving average: rate per second, mean of the training part.
inline double BaseMean(double rate, double train_mean) {
  return 0.98 * std::fmax(1e-3, 0.1 * rate) + 0.02 * train_mean;
}

}  // namespace remontoir
