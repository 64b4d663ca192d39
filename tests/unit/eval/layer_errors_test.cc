// Facts about layers' errors: what is a row's error, what an alarm, and which positions are
// sampled.
#include "eval/layer_errors.h"
#include "eval/row_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace remontoir {
namespace {

using ::testing::ElementsAre;

TEST(RelativeError, IsTheDistanceByTheExactLength) {
  const std::vector<float> exact = {3, 4};
  EXPECT_EQ(RelativeError(exact, exact), 0);
  EXPECT_NEAR(RelativeError(exact, std::vector<float>{3, 5}), 0.2, 1e-12);
  const std::vector<float> zero = {0, 0};
  EXPECT_EQ(RelativeError(zero, zero), 0);
  EXPECT_EQ(RelativeError(zero, exact), std::numeric_limits<double>::infinity());
}

TEST(LayerErrorMeter, OfNoRowsIsEmpty) {
  const LayerError error = LayerErrorMeter(2).Get(3);
  EXPECT_EQ(error.layer, 3);
  EXPECT_EQ(error.rows, 0);
  EXPECT_EQ(error.error_mean, 0);
  EXPECT_EQ(error.density, 0);
}

TEST(LayerErrorMeter, FindsTheWorstHead) {
  LayerErrorMeter meter(3);
  meter.AddRow(0, 0.01, 0.1);
  meter.AddRow(0, 0.03, 0.1);
  meter.AddRow(1, 0.05, 0.1);
  meter.AddRow(1, 0.01, 0.3);
  meter.AddBlocks({.far_blocks = 100, .chosen_blocks = 10});
  meter.AddBlocks({.far_blocks = 100, .chosen_blocks = 40});
  const LayerError error = meter.Get(0);
  EXPECT_EQ(error.rows, 4);
  EXPECT_NEAR(error.error_mean, 0.025, 1e-12);
  EXPECT_EQ(error.worst_head, 1);
  EXPECT_NEAR(error.error_worst_head, 0.03, 1e-12);
  EXPECT_EQ(error.error_max, 0.05);
  EXPECT_NEAR(error.residual_mean, 0.15, 1e-12);
  EXPECT_EQ(error.residual_max, 0.3);
  EXPECT_EQ(error.density, 0.25);
}

TEST(LayerErrorMeter, AnAlarmIsAnErrorThatTheResidualDidNotSay) {
  const struct {
    double error;
    double residual;
    double rate;
  } cases[] = {
      {0.019, 0.0, 0},  // too small to matter
      {0.021, 0.0, 1},
      {0.3, 0.14, 1},
      {0.3, 0.16, 0},
  };
  for (const auto& one : cases) {
    LayerErrorMeter meter(1);
    meter.AddRow(0, one.error, one.residual);
    EXPECT_EQ(meter.Get(0).alarm_rate, one.rate) << one.error << " " << one.residual;
  }
}

TEST(Summarise, WeighsLayersByTheirRows) {
  const LayerError layers[] = {
      {.layer = 0, .rows = 30, .error_mean = 0.01, .density = 0.2, .alarm_rate = 0},
      {.layer = 5, .rows = 10, .error_mean = 0.05, .density = 0.4, .alarm_rate = 0.2}};
  const LayerSummary summary = Summarise(layers);
  EXPECT_NEAR(summary.error_mean, 0.02, 1e-12);
  EXPECT_EQ(summary.worst_layer, 5);
  EXPECT_EQ(summary.error_worst_layer, 0.05);
  EXPECT_NEAR(summary.density, 0.3, 1e-12);
  EXPECT_NEAR(summary.alarm_rate, 0.05, 1e-12);
  EXPECT_EQ(Summarise({}).error_mean, 0);
}

TEST(SamplePositions, TakesWholeGroupsEvenlySpaced) {
  EXPECT_THAT(SamplePositions(15, 34, 8, 100).positions,
              ElementsAre(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31));
  EXPECT_THAT(SamplePositions(16, 80, 8, 17).positions,
              ElementsAre(40, 41, 42, 43, 44, 45, 46, 47, 72, 73, 74, 75, 76, 77, 78, 79));
  EXPECT_THAT(SamplePositions(5, 15, 1, 4).positions, ElementsAre(6, 9, 11, 14));
  EXPECT_THAT(SamplePositions(5, 8, 1, 4).positions, ElementsAre(5, 6, 7));
  EXPECT_TRUE(SamplePositions(17, 24, 8, 100).positions.empty());
  EXPECT_TRUE(SamplePositions(30, 20, 8, 100).positions.empty());
  EXPECT_EQ(SamplePositions(0, 80, 8, 80).group_positions, 8);
}

}  // namespace
}  // namespace remontoir
