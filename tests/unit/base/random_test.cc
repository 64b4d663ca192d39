// Facts about the counter-based random numbers.
#include "base/random.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(CounterRandom, AValueDependsOnSeedStreamAndCounterOnly) {
  const CounterRandom a(7, 1);
  const CounterRandom b(7, 1);
  EXPECT_EQ(a.Bits(1000), b.Bits(1000));
  EXPECT_NE(a.Bits(1000), a.Bits(1001));
  EXPECT_NE(a.Bits(0), CounterRandom(7, 2).Bits(0));
  EXPECT_NE(a.Bits(0), CounterRandom(8, 1).Bits(0));
}

// First vector of the generator's published known-answer tests: all-zero counter and key.
TEST(CounterRandom, MatchesThePublishedZeroVector) {
  EXPECT_EQ(CounterRandom(0, 0).Bits(0), 0xe169c58d6627e8d5u);
}

TEST(CounterRandom, UniformStaysBelowOneAndAveragesAHalf) {
  const CounterRandom random(42, 0);
  double sum = 0;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double u = random.Uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

}  // namespace
}  // namespace remontoir
