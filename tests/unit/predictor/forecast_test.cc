// What a forecast of arrivals says: expectations within free slots, and quantiles.
#include "predictor/forecast.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(ArrivalForecast, ExpectsNobodyByDefault) {
  const ArrivalForecast forecast;
  EXPECT_EQ(forecast.ExpectedWithin(8), 0.0F);
  EXPECT_EQ(forecast.Quantile(0.99F), 0);
}

TEST(ArrivalForecast, CountsArrivalsUpToTheFreeSlots) {
  ArrivalForecast forecast;
  forecast.probability = {0.5F, 0.25F, 0.0F, 0.25F};
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(8), 0.25F + 3 * 0.25F);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(2), 0.25F + 2 * 0.25F);
  EXPECT_FLOAT_EQ(forecast.ExpectedWithin(0), 0.0F);
  EXPECT_EQ(forecast.Quantile(0.5F), 0);
  EXPECT_EQ(forecast.Quantile(0.75F), 1);
  EXPECT_EQ(forecast.Quantile(0.76F), 3);
}

}  // namespace
}  // namespace remontoir
