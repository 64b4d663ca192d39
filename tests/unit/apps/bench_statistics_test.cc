// Facts about the middle and the ends of measurements.
#include "apps/bench_statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace remontoir {
namespace {

TEST(BenchStatistics, SpreadIsTheMiddleAndBothEnds) {
  const struct {
    std::vector<double> values;
    double median, low, high;
  } kCases[] = {
      {{5}, 5, 5, 5},
      {{3, 1}, 2, 1, 3},
      {{9, 1, 4}, 4, 1, 9},
      {{1, 100, 2, 3}, 2.5, 1, 100},
  };
  for (const auto& one : kCases) {
    const Spread spread = SpreadOf(one.values);
    EXPECT_EQ(spread.median, one.median);
    EXPECT_EQ(spread.low, one.low);
    EXPECT_EQ(spread.high, one.high);
  }
}

}  // namespace
}  // namespace remontoir
