// Facts about half precision and bfloat16, over every 16-bit pattern.
#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace remontoir {
namespace {

static_assert(HalfToFloat(0x3c00) == 1.0f);
static_assert(FloatToHalf(-2.0f) == 0xc000);

bool IsHalfNaN(uint32_t half) { return (half & 0x7fff) > 0x7c00; }
bool IsBf16NaN(uint32_t bf16) { return (bf16 & 0x7fff) > 0x7f80; }

// The value of a finite half by its definition.
double DefinedValue(uint32_t half) {
  const int exponent = static_cast<int>(half >> 10) & 31;
  const int mantissa = static_cast<int>(half & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, EveryFinitePatternHasItsDefinedValue) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7c00) == 0x7c00) continue;
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    ASSERT_EQ(static_cast<double>(value), DefinedValue(half)) << std::hex << half;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << std::hex << half;
  }
}

TEST(Half, EveryPatternButNaNComesBackFromFloat) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if (IsHalfNaN(half)) continue;
    ASSERT_EQ(FloatToHalf(HalfToFloat(static_cast<uint16_t>(half))), half) << std::hex << half;
  }
}

TEST(Half, NaNStaysAQuietNaNWithItsSignAndPayload) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if (!IsHalfNaN(half)) continue;
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    ASSERT_TRUE(std::isnan(value)) << std::hex << half;
    ASSERT_EQ(FloatToHalf(value), half | 0x0200) << std::hex << half;
  }
}

// Around every boundary between two neighbouring halves: just below rounds down, just above rounds
// up, the middle goes to the even one.
TEST(Half, RoundsToNearestTiesToEvenBetweenAllNeighbours) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const auto lower = static_cast<uint16_t>(half);
    const auto upper = static_cast<uint16_t>(half + 1);
    const float middle = (HalfToFloat(lower) + HalfToFloat(upper)) / 2;
    ASSERT_EQ(FloatToHalf(middle), half % 2 == 0 ? lower : upper) << std::hex << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), lower) << std::hex << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), upper) << std::hex << half;
    ASSERT_EQ(FloatToHalf(-middle), 0x8000 | (half % 2 == 0 ? lower : upper)) << std::hex << half;
  }
}

TEST(Half, PastTheLargestBecomesInfinity) {
  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(Half, FloatSubnormalsBecomeZeroWithTheirSign) {
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Bf16, EveryPatternButNaNComesBackFromFloat) {
  for (uint32_t bf16 = 0; bf16 < 0x10000; ++bf16) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bf16));
    if (IsBf16NaN(bf16)) {
      ASSERT_EQ(FloatToBf16(value), bf16 | 0x0040) << std::hex << bf16;
    } else {
      ASSERT_EQ(FloatToBf16(value), bf16) << std::hex << bf16;
    }
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  struct Case {
    uint32_t bits;
    uint16_t expected;
  };
  for (const Case& c :
       {Case{0x3f80'8000, 0x3f80}, Case{0x3f81'8000, 0x3f82}, Case{0x3f80'8001, 0x3f81},
        Case{0x3f80'7fff, 0x3f80}, Case{0x7f7f'ffff, 0x7f80}, Case{0xff7f'ffff, 0xff80},
        Case{0x0000'8001, 0x0001}}) {
    EXPECT_EQ(FloatToBf16(std::bit_cast<float>(c.bits)), c.expected) << std::hex << c.bits;
  }
}

}  // namespace
}  // namespace remontoir
