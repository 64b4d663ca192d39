// Poisson and negative binomial classes, losses and their derivatives.
#include "predictor/distributions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "predictor/evaluation.h"
#include "predictor/gradient.h"

namespace remontoir {
namespace {

double Sum(const ClassProbabilities& classes) {
  return std::accumulate(classes.begin(), classes.end(), 0.0);
}

TEST(Distributions, SumToOneWhateverTheParameters) {
  for (const double mean : {0.0, 1e-5, 0.3, 4.0, 30.0, 900.0, 1e6}) {
    EXPECT_NEAR(Sum(PoissonClasses(mean)), 1.0, 1e-6) << mean;
  }
  for (double log_mean = kLogMeanMin; log_mean <= kLogMeanMax; log_mean += 1.0) {
    for (double log_size = kLogSizeMin; log_size <= kLogSizeMax; log_size += 1.0) {
      EXPECT_NEAR(Sum(NegativeBinomialClasses({log_mean, log_size})), 1.0, 1e-6)
          << log_mean << " " << log_size;
    }
  }
}

TEST(Distributions, AreTheKnownOnes) {
  const ClassProbabilities poisson = PoissonClasses(2.0);
  EXPECT_NEAR(poisson[3], std::exp(-2.0) * 8 / 6, 1e-7);
  // Size 1 is the geometric distribution.
  const ClassProbabilities geometric = NegativeBinomialClasses({std::log(3.0), 0.0});
  for (int k = 0; k < 10; ++k) {
    EXPECT_NEAR(geometric[static_cast<size_t>(k)], 0.25 * std::pow(0.75, k), 1e-7) << k;
  }
}

TEST(Distributions, LossIsTheLogOfTheClassesProbability) {
  for (const int arrivals : {0, 1, 5, 15}) {
    const CountLoss loss = LossOf(0.7, 0.4, -0.3, arrivals);
    EXPECT_NEAR(loss.loss,
                LogLoss(NegativeBinomialClasses(DistributionOf(0.7, 0.4, -0.3)), arrivals), 1e-4);
  }
}

TEST(Distributions, DerivativesAreThoseOfTheLoss) {
  constexpr double kStep = 1e-6;
  for (const int arrivals : {0, 1, 4, 40}) {
    const CountLoss loss = LossOf(0.7, 0.4, -0.3, arrivals);
    const double by_mean = (LossOf(0.7, 0.4 + kStep, -0.3, arrivals).loss -
                            LossOf(0.7, 0.4 - kStep, -0.3, arrivals).loss) /
                           (2 * kStep);
    const double by_size = (LossOf(0.7, 0.4, -0.3 + kStep, arrivals).loss -
                            LossOf(0.7, 0.4, -0.3 - kStep, arrivals).loss) /
                           (2 * kStep);
    EXPECT_NEAR(loss.by_mean_output, by_mean, 1e-5 * std::fabs(by_mean) + 1e-7);
    EXPECT_NEAR(loss.by_size_output, by_size, 1e-5 * std::fabs(by_size) + 1e-7);
  }
}

TEST(ScoreKeeper, TellsACalibratedForecastFromOneThatIsTooLow) {
  ScoreKeeper right;
  ScoreKeeper wrong;
  const CounterRandom random(1, 1);
  const ClassProbabilities truth = PoissonClasses(1.5);
  for (uint64_t i = 0; i < 20'000; ++i) {
    const int arrivals = ArrivalForecast{truth}.Quantile(static_cast<float>(random.Uniform(i)));
    right.Add(truth, arrivals);
    wrong.Add(PoissonClasses(0.5), arrivals);
  }
  EXPECT_LT(right.Score("right").pit_ks, 0.015);
  EXPECT_GT(wrong.Score("wrong").pit_ks, 0.2);
  EXPECT_LT(right.Score("right").loss, wrong.Score("wrong").loss);
  EXPECT_GE(right.Score("right").covered, 0.94);
}

}  // namespace
}  // namespace remontoir
