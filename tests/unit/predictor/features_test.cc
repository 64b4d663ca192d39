// The streaming features against their formulas.
#include "predictor/features.h"

#include <gtest/gtest.h>

#include <cmath>

namespace remontoir {
namespace {

FeatureMask All() { return FeatureMask().set(); }

constexpr int64_t kTickUs = 20'000;

TEST(ArrivalFeatures, CountGapAndRatesFollowTheirFormulas) {
  ArrivalFeatures features({0}, 20, All(), std::nullopt);
  features.Arrived({5'000}, 100, kUnknownClass, kUnknownClass);
  features.Arrived({12'000}, 100, kUnknownClass, kUnknownClass);
  features.EndTick();
  EXPECT_EQ(features.count(), 2);
  EXPECT_FLOAT_EQ(features.values()[0], std::log(3.0F));
  EXPECT_NEAR(features.values()[7], 0.5 * std::log(1.0 + 10.0 * 0.008), 1e-6);
  EXPECT_FLOAT_EQ(features.values()[16], 0.5F);
  EXPECT_FLOAT_EQ(features.values()[17], 1.0F);
  const double rate = 2 * (1 - std::exp(-0.02 / 0.05)) / 0.02;
  EXPECT_DOUBLE_EQ(features.Rate(0), rate);
  EXPECT_NEAR(features.values()[1], 0.5 * (std::log(0.1 * rate + 1e-3) + 2.3), 1e-6);
  features.EndTick();
  EXPECT_DOUBLE_EQ(features.Rate(0), rate * std::exp(-0.02 / 0.05));
  EXPECT_EQ(features.count(), 0);
}

TEST(ArrivalFeatures, ASteadyRateIsFoundByEveryTimeConstant) {
  ArrivalFeatures features({0}, 20, All(), std::nullopt);
  for (int64_t tick = 0; tick < 200'000; ++tick) {
    features.Arrived({tick * kTickUs + 1}, 10, kUnknownClass, kUnknownClass);
    features.EndTick();
  }
  for (int i = 0; i < kRateCount; ++i) EXPECT_NEAR(features.Rate(i), 50.0, 1e-3) << i;
}

TEST(ArrivalFeatures, SkippedTicksDecayAsIfTheyHadBeenRun) {
  ArrivalFeatures run({0}, 20, All(), std::nullopt);
  ArrivalFeatures skip = run;
  for (ArrivalFeatures* features : {&run, &skip}) {
    features->Arrived({1'000}, 300, kUnknownClass, kUnknownClass);
    features->EndTick();
  }
  for (int i = 0; i < 1'000; ++i) run.EndTick();
  skip.SkipTicks(999);
  skip.EndTick();
  EXPECT_EQ(run.tick_end(), skip.tick_end());
  for (size_t i = 0; i < run.values().size(); ++i) {
    EXPECT_NEAR(run.values()[i], skip.values()[i], 1e-5) << i;
  }
}

TEST(ArrivalFeatures, EntropyGrowsWithClientsAndIsZeroForOne) {
  ArrivalFeatures features({0}, 20, All(), std::nullopt);
  features.Arrived({0}, 10, 7, kUnknownClass);
  features.Arrived({0}, 10, 7, kUnknownClass);
  features.EndTick();
  EXPECT_NEAR(features.values()[kFeatureEntropy], 0.0, 1e-6);
  features.Arrived({kTickUs}, 10, 8, kUnknownClass);
  features.Arrived({kTickUs}, 10, 8, kUnknownClass);
  features.EndTick();
  EXPECT_NEAR(features.values()[kFeatureEntropy], 0.5 * std::log(2.0), 1e-5);
}

TEST(ArrivalFeatures, HoursAndWeekendsComeFromTheLocalClock) {
  constexpr int64_t kDayUs = 86'400'000'000;
  // 1970-01-03 was a Saturday: six in the morning there.
  ArrivalFeatures features({0}, 20, All(), 2 * kDayUs + kDayUs / 4 - kTickUs);
  features.EndTick();
  EXPECT_NEAR(features.values()[kFeatureHourSine], 1.0, 1e-6);
  EXPECT_NEAR(features.values()[kFeatureHourCosine], 0.0, 1e-6);
  EXPECT_EQ(features.values()[kFeatureWeekend], 1.0F);
  ArrivalFeatures friday({0}, 20, All(), kDayUs);
  friday.EndTick();
  EXPECT_EQ(friday.values()[kFeatureWeekend], 0.0F);
}

TEST(ArrivalFeatures, MaskedFeaturesStayZero) {
  FeatureMask mask = All();
  mask[17] = false;
  ArrivalFeatures features({0}, 20, mask, std::nullopt);
  features.EndTick();
  EXPECT_EQ(features.values()[17], 0.0F);
}

}  // namespace
}  // namespace remontoir
