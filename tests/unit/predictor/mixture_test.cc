// Trust moves to the expert that was right, and comes back.
#include "predictor/mixture.h"

#include <gtest/gtest.h>

#include <cmath>

namespace remontoir {
namespace {

constexpr int kTickMs = 20;
constexpr int kTicksPerMinute = 60'000 / kTickMs;

TEST(ForecastMixture, StartsEven) {
  const ForecastMixture mixture(kTickMs);
  EXPECT_EQ(mixture.network_weight(), 0.5);
  EXPECT_FALSE(mixture.fallback());
  const ClassProbabilities mixed = mixture.Mix(PoissonClasses(0.0), PoissonClasses(1e9));
  EXPECT_FLOAT_EQ(mixed.front(), 0.5F);
  EXPECT_FLOAT_EQ(mixed.back(), 0.5F);
}

TEST(ForecastMixture, OneStepIsTheFifthRootOfTheRatioAndTheFixedShare) {
  ForecastMixture mixture(kTickMs);
  const ClassProbabilities low = PoissonClasses(0.1);
  const ClassProbabilities high = PoissonClasses(2.0);
  mixture.Resolve(low, high, 2);
  const double ratio = std::pow(high[2] / low[2], 0.2);
  EXPECT_NEAR(mixture.network_weight(), (1 - 1e-4) * ratio / (1 + ratio) + 0.5e-4, 1e-6);
  EXPECT_NEAR(mixture.scores().network_score(), std::log(high[2]), 1e-6);
  EXPECT_NEAR(mixture.scores().average_score(), std::log(low[2]), 1e-6);
}

TEST(ForecastMixture, FallsBackAfterAMinuteOfBadForecastsAndReturnsAfterGoodOnes) {
  ForecastMixture mixture(kTickMs);
  const ClassProbabilities good = PoissonClasses(0.1);
  const ClassProbabilities bad = PoissonClasses(3.0);
  for (int i = 0; i < kTicksPerMinute - 1; ++i) mixture.Resolve(good, bad, 0);
  EXPECT_FALSE(mixture.fallback());
  mixture.Resolve(good, bad, 0);
  EXPECT_TRUE(mixture.fallback());
  EXPECT_GT(mixture.network_weight(), 1e-5);
  for (int i = 0; i < kTicksPerMinute / 2; ++i) mixture.Resolve(bad, good, 0);
  EXPECT_TRUE(mixture.fallback()) << "its mean score is still the lower one";
  for (int i = 0; i < kTicksPerMinute; ++i) mixture.Resolve(bad, good, 0);
  EXPECT_FALSE(mixture.fallback());
  EXPECT_GT(mixture.network_weight(), 0.99);
}

TEST(AverageMixture, FindsTheTimeConstantThatFits) {
  AverageMixture mixture(kTickMs);
  AverageMixture::Averages averages;
  averages.fill(PoissonClasses(3.0));
  averages[4] = PoissonClasses(0.2);
  for (int i = 0; i < 200; ++i) mixture.Resolve(averages, 0);
  EXPECT_GT(mixture.weight(4), 0.99);
  EXPECT_GT(mixture.weight(0), 1e-5);
  EXPECT_NEAR(mixture.Mix(averages)[0], std::exp(-0.2), 0.01);
}

TEST(ScoreWindow, ForgetsWhatIsOlderThanFiveMinutes) {
  ScoreWindow window(kTickMs);
  for (int i = 0; i < kTicksPerMinute; ++i) window.Add(-9.0, -9.0);
  for (int i = 0; i < 5 * kTicksPerMinute; ++i) window.Add(-1.0, -2.0);
  EXPECT_DOUBLE_EQ(window.average_score(), -1.0);
  EXPECT_DOUBLE_EQ(window.network_score(), -2.0);
  EXPECT_LE(window.count(), 5 * kTicksPerMinute);
  window.Skip(int64_t{1} << 50);
  EXPECT_EQ(window.count(), 0);
  EXPECT_EQ(window.average_score(), 0.0);
}

}  // namespace
}  // namespace remontoir
