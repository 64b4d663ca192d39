// Facts about rotary frequencies.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace remontoir {
namespace {

RopeParams Make(const RopeScaling& scaling, const std::vector<float>& factors = {},
                const RopeAdjustment& adjustment = {}) {
  return MakeRope(RopePairing::kHalves, 8, scaling, factors, adjustment);
}

TEST(MakeRope, UnscaledFrequenciesFallFromOneByTheBase) {
  const RopeParams rope = Make({.base = 10000});
  ASSERT_EQ(rope.frequencies.size(), 4u);
  EXPECT_EQ(rope.frequencies[0], 1);
  EXPECT_FLOAT_EQ(rope.frequencies[1], 0.1F);
  EXPECT_FLOAT_EQ(rope.frequencies[3], 0.001F);
  EXPECT_EQ(rope.magnitude, 1);
}

TEST(MakeRope, LinearScalingDividesEveryFrequency) {
  const RopeParams rope = Make({.kind = RopeScaling::Kind::kLinear, .base = 10000, .factor = 4});
  EXPECT_FLOAT_EQ(rope.frequencies[0], 0.25F);
  EXPECT_FLOAT_EQ(rope.frequencies[3], 0.00025F);
}

TEST(MakeRope, FactorsOfTheFileDivideTheirOwnFrequency) {
  const RopeParams rope = Make({.base = 10000}, {1, 1, 2, 8});
  EXPECT_FLOAT_EQ(rope.frequencies[1], 0.1F);
  EXPECT_FLOAT_EQ(rope.frequencies[2], 0.005F);
  EXPECT_FLOAT_EQ(rope.frequencies[3], 0.000125F);
}

// Fast dimensions keep their frequency, slow ones are divided, and cos and sin grow a little.
TEST(MakeRope, YarnKeepsFastDimensionsAndStretchesSlowOnes) {
  const RopeScaling scaling = {
      .kind = RopeScaling::Kind::kYarn, .base = 10000, .factor = 4, .original_context = 64};
  const RopeParams rope = MakeRope(RopePairing::kHalves, 64, scaling, {}, {});
  EXPECT_EQ(rope.frequencies[0], 1);
  EXPECT_FLOAT_EQ(rope.frequencies[31], static_cast<float>(std::pow(10000.0, -62.0 / 64) / 4));
  EXPECT_FLOAT_EQ(rope.magnitude, static_cast<float>(1 + 0.1 * std::log(4.0)));
}

TEST(MakeRope, YarnBlendsFromWhereItsFormulaSaysWithoutRounding) {
  RopeScaling scaling = {
      .kind = RopeScaling::Kind::kYarn, .base = 150000, .factor = 4, .original_context = 64};
  const auto blended = [&scaling](bool whole) {
    scaling.yarn_range_is_whole = whole;
    return MakeRope(RopePairing::kHalves, 16, scaling, {}, {}).frequencies;
  };
  // The range is 0 ... 16 log(64 / 2 pi) / (2 log 150000) = 1.5577, or 0 ... 2.
  const double plain = std::pow(150000.0, -2.0 / 16);
  for (const bool whole : {false, true}) {
    const double ramp =
        1 / (whole ? 2 : 16 * std::log(64 / 6.283185307) / (2 * std::log(150000.0)));
    EXPECT_FLOAT_EQ(blended(whole)[1], static_cast<float>(plain / 4 * ramp + plain * (1 - ramp)));
  }
}

TEST(MakeRope, TheUsersStretchComesOnTop) {
  const RopeParams rope = Make({.base = 1000}, {}, {.freq_scale = 0.5, .base_scale = 10});
  EXPECT_FLOAT_EQ(rope.frequencies[0], 0.5F);
  EXPECT_FLOAT_EQ(rope.frequencies[1], 0.05F);
}

}  // namespace
}  // namespace remontoir
