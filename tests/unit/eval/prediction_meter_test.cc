// Facts about distances of predictions: what equal ones, shifted ones and known distributions give.
#include "eval/prediction_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace remontoir {
namespace {

TEST(PredictionMeter, OfNoPredictionsIsEmpty) {
  const PredictionDistance distance = PredictionMeter().Get();
  EXPECT_EQ(distance.predictions, 0);
  EXPECT_EQ(distance.perplexity_change(), 0);
}

TEST(PredictionMeter, LogitsThatDifferByAConstantPredictTheSame) {
  PredictionMeter meter;
  meter.Add(std::vector<float>{1, 2, 3}, std::vector<float>{11, 12, 13}, 1);
  const PredictionDistance distance = meter.Get();
  EXPECT_NEAR(distance.kl_mean, 0, 1e-6);
  EXPECT_NEAR(distance.perplexity_change(), 0, 1e-6);
  EXPECT_EQ(distance.top1_agreement, 1);
}

// Reference 3/4 and 1/4, other 1/4 and 3/4; then twice the same.
TEST(PredictionMeter, HasTheDivergenceOfKnownDistributions) {
  const float log3 = std::log(3.0F);
  const std::vector<float> first = {log3, 0};
  const std::vector<float> second = {0, log3};
  PredictionMeter meter;
  meter.Add(first, second, 0);
  meter.Add(first, first, 0);
  const PredictionDistance distance = meter.Get();
  EXPECT_EQ(distance.predictions, 2);
  EXPECT_NEAR(distance.kl_mean, 0.25 * std::log(3.0), 1e-6);
  EXPECT_NEAR(distance.perplexity_reference, 4.0 / 3, 1e-6);
  EXPECT_NEAR(distance.perplexity, 4 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(distance.perplexity_change(), std::sqrt(3.0) - 1, 1e-6);
  EXPECT_EQ(distance.top1_agreement, 0.5);
}

TEST(PredictionMeter, ThePercentileIsOfTheSortedDivergences) {
  PredictionMeter meter;
  const std::vector<float> reference = {0, 0};
  for (int i = 200; i > 0; --i) {
    meter.Add(reference, std::vector<float>{static_cast<float>(i) / 100, 0}, 0);
  }
  PredictionMeter single;
  single.Add(reference, std::vector<float>{1.98F, 0}, 0);
  EXPECT_NEAR(meter.Get().kl_p99, single.Get().kl_mean, 1e-9);
}

}  // namespace
}  // namespace remontoir
