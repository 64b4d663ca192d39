// Stalls and rates under a clock that the test moves.
#include "hub/transfer_meter.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TimePoint AtMs(int64_t ms) { return {ms * 1000}; }

TEST(StallWatch, SaysSoOnlyAfterAWindowThatBroughtTooLittle) {
  StallWatch watch(AtMs(0), 1000, 100);
  EXPECT_FALSE(watch.Stalled(AtMs(999), 0));
  EXPECT_FALSE(watch.Stalled(AtMs(1000), 100));
  EXPECT_FALSE(watch.Stalled(AtMs(1999), 100));
  EXPECT_TRUE(watch.Stalled(AtMs(2000), 199));
}

TEST(RateMeter, FollowsTheSpeed) {
  RateMeter meter(AtMs(0));
  EXPECT_EQ(meter.Add(AtMs(100), 1000), 0);  // too early to say
  EXPECT_DOUBLE_EQ(meter.Add(AtMs(200), 1000), 10'000);
  double rate = 0;
  for (int ms = 400; ms <= 20'000; ms += 200) rate = meter.Add(AtMs(ms), 4000);
  EXPECT_NEAR(rate, 20'000, 100);
}

}  // namespace
}  // namespace remontoir
