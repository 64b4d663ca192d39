// Facts about how far logits are from a reference.
#include "eval/logits_distance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace remontoir {
namespace {

LogitsDistance Distance(const std::vector<float>& reference, const std::vector<float>& logits) {
  LogitsMeter meter;
  meter.Add(reference, logits);
  return meter.Get();
}

TEST(LogitsDistance, OfEqualRowsIsNothing) {
  const LogitsDistance distance = Distance({1, 2, 3}, {1, 2, 3});
  EXPECT_EQ(distance.rows, 1);
  EXPECT_EQ(distance.max_abs, 0);
  EXPECT_EQ(distance.rms_relative, 0);
  EXPECT_EQ(distance.kl_mean, 0);
  EXPECT_EQ(distance.top1_share, 1);
}

// Differences 0.5 and 0; the reference's deviation is 1. Logits that all move by the same are the
// same distribution.
TEST(LogitsDistance, CountsDifferencesByTheReferencesDeviation) {
  const LogitsDistance distance = Distance({-1, 1}, {-1, 1.5F});
  EXPECT_DOUBLE_EQ(distance.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(distance.rms_relative, 0.5 / std::sqrt(2.0));
  EXPECT_NEAR(Distance({-1, 1}, {4, 6}).kl_mean, 0, 1e-7);
  EXPECT_DOUBLE_EQ(Distance({-1, 1}, {4, 6}).max_abs, 5);
}

// p = (1/4, 3/4), q = (1/2, 1/2).
TEST(LogitsDistance, IsTheDivergenceOfTheReferenceFromTheModel) {
  const double wanted = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  EXPECT_NEAR(Distance({0, std::log(3.0F)}, {7, 7}).kl_mean, wanted, 1e-6);
}

TEST(LogitsDistance, JoinsRows) {
  LogitsMeter meter;
  meter.Add(std::vector<float>{0, 1}, std::vector<float>{0, 1});
  meter.Add(std::vector<float>{0, 1}, std::vector<float>{1, 0});
  const LogitsDistance distance = meter.Get();
  EXPECT_EQ(distance.rows, 2);
  EXPECT_EQ(distance.top1_share, 0.5);
  EXPECT_GT(distance.kl_max, 0);
  EXPECT_DOUBLE_EQ(distance.kl_mean, distance.kl_max / 2);
}

TEST(LogitsDistance, IsInfiniteWhereALogitIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const LogitsDistance& distance : {Distance({0, 1}, {0, nan}), Distance({0, nan}, {0, 1})}) {
    EXPECT_TRUE(std::isinf(distance.max_abs));
    EXPECT_TRUE(std::isinf(distance.kl_mean));
  }
}

LogitsBounds Bounds(std::optional<double> max_abs, std::optional<double> rms_relative,
                    std::optional<double> kl_mean, std::optional<double> top1_share) {
  return {max_abs, rms_relative, kl_mean, top1_share};
}

TEST(LogitsBounds, NameWhatExceedsThem) {
  constexpr std::nullopt_t kNone = std::nullopt;
  const LogitsDistance distance = {
      .rows = 1, .max_abs = 0.25, .rms_relative = 0.5, .kl_mean = 0.125, .top1_share = 0.5};
  EXPECT_EQ(Exceeded(distance, {}), "");
  EXPECT_EQ(Exceeded(distance, Bounds(0.25, 0.5, 0.125, 0.5)), "");
  EXPECT_EQ(Exceeded(distance, Bounds(0.2, kNone, kNone, kNone)), "max_abs 0.25 is above 0.2");
  EXPECT_EQ(Exceeded(distance, Bounds(kNone, 0.4, kNone, 1)),
            "rms_relative 0.5 is above 0.4, top1_share 0.5 is below 1");
  EXPECT_EQ(Exceeded(distance, Bounds(kNone, kNone, 0, kNone)), "kl_mean 0.125 is above 0");
}

}  // namespace
}  // namespace remontoir
