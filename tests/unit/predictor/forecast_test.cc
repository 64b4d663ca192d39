// What the scheduler reads off a forecast.
#include "predictor/forecast.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(Forecast, SaysByDefaultThatNobodyComes) {
  const ArrivalForecast forecast;
  EXPECT_EQ(forecast.ExpectedWithin(8), 0.0F);
  EXPECT_EQ(forecast.Quantile(1.0F), 0);
}

TEST(Forecast, CountsOnlyArrivalsThatFindASlot) {
  ArrivalForecast forecast;
  forecast.probability = {0.5F, 0.0F, 0.25F};
  forecast.probability[16] = 0.25F;
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(0), 0.0F);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(-3), 0.0F);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(1), 0.5F);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(3), 0.25F * 2 + 0.25F * 3);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(1000), 0.25F * 2 + 0.25F * 16);
}

TEST(Forecast, QuantileIsTheFirstCountThatReachesIt) {
  ArrivalForecast forecast;
  forecast.probability = {0.5F, 0.25F, 0.125F};
  forecast.probability[16] = 0.125F;
  EXPECT_EQ(forecast.Quantile(0.0F), 0);
  EXPECT_EQ(forecast.Quantile(0.5F), 0);
  EXPECT_EQ(forecast.Quantile(0.51F), 1);
  EXPECT_EQ(forecast.Quantile(0.8F), 2);
  EXPECT_EQ(forecast.Quantile(0.9F), 16);
}

}  // namespace
}  // namespace remontoir
