// The predictor as a scheduler uses it: steps, pauses, fallback, and no allocation.
#include "predictor/arrival_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/thread_counters.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/predictor/made_log.h"

namespace remontoir {
namespace {

using testing::HasSubstr;

double Sum(const ArrivalForecast& forecast) {
  return std::accumulate(forecast.probability.begin(), forecast.probability.end(), 0.0);
}

double Mean(const ArrivalForecast& forecast) { return forecast.ExpectedWithin(16); }

// Head 0: its mean is the moving average's whatever the cell says.
TrainedPredictor Untrained() {
  TrainedPredictor model;
  model.shape.hidden = 8;
  model.mask = FeatureMask().set();
  model.train_mean = 0.5;
  model.parameters.assign(model.shape.parameter_count(), 0.0F);
  for (size_t i = 0; i < model.shape.cell_bias(); ++i) {
    model.parameters[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  }
  return model;
}

ArrivalPredictorOptions With(ForecastModel model) {
  ArrivalPredictorOptions options;
  options.model = model;
  return options;
}

// Feeds a log from time 0 on.
void Feed(const ArrivalLog& log, ArrivalPredictor& predictor) {
  for (const LoggedArrival& arrival : log.arrivals) {
    predictor.Arrived({arrival.t_us}, arrival.prompt_tokens);
  }
}

TEST(ArrivalPredictor, NoneAlwaysSaysThatNobodyComes) {
  ArrivalPredictor predictor({0}, With(ForecastModel::kNone));
  Feed(MadeBursts(10, 0.2, 1), predictor);
  predictor.Advance({20'000'000});
  EXPECT_EQ(predictor.Forecast().probability[0], 1.0F);
  EXPECT_FALSE(predictor.fallback());
  EXPECT_EQ(predictor.ticks(), 0);
}

TEST(ArrivalPredictor, EveryForecastSumsToOne) {
  for (const ForecastModel kind : {ForecastModel::kEwma, ForecastModel::kLstmV2}) {
    ArrivalPredictor predictor({0}, With(kind), Untrained());
    for (const LoggedArrival& arrival : MadeBursts(30, 0.1, 2).arrivals) {
      predictor.Arrived({arrival.t_us}, arrival.prompt_tokens);
      ASSERT_NEAR(Sum(predictor.Forecast()), 1.0, 1e-5);
    }
    for (int i = 0; i < 5'000; ++i) predictor.Arrived({31'000'000}, 10);
    predictor.Advance({31'100'000});
    ASSERT_NEAR(Sum(predictor.Forecast()), 1.0, 1e-5);
    EXPECT_GT(predictor.Forecast().probability[16], 0.5F);
  }
}

TEST(ArrivalPredictor, AnUntrainedNetworkForecastsWhatTheMovingAveragesDo) {
  const TrainedPredictor model = Untrained();
  ArrivalPredictor predictor({0}, With(ForecastModel::kLstmV2), model);
  ArrivalFeatures features({0}, model.tick_ms, model.mask, std::nullopt);
  for (int64_t tick = 0; tick < 500; ++tick) {
    if (tick % 10 == 0) {
      predictor.Arrived({tick * 20'000}, 50);
      features.Arrived({tick * 20'000}, 50, kUnknownClass, kUnknownClass);
    }
    features.EndTick();
    predictor.Advance({(tick + 1) * 20'000});
    double lowest = 1e9;
    double highest = 0;
    for (int i = 0; i < kRateCount; ++i) {
      lowest = std::min(lowest, BaseMean(features.Rate(i), model.train_mean));
      highest = std::max(highest, BaseMean(features.Rate(i), model.train_mean));
    }
    ASSERT_GE(Mean(predictor.Forecast()), lowest - 1e-3);
    ASSERT_LE(Mean(predictor.Forecast()), highest + 1e-3);
  }
}

TEST(ArrivalPredictor, DependsOnTicksAndNotOnWhenItIsAsked) {
  ArrivalPredictor often({0}, With(ForecastModel::kLstmV2), Untrained());
  ArrivalPredictor seldom({0}, With(ForecastModel::kLstmV2), Untrained());
  const ArrivalLog log = MadeBursts(20, 0.2, 3);
  int64_t now_us = 0;
  for (const LoggedArrival& arrival : log.arrivals) {
    for (; now_us < arrival.t_us; now_us += 3'333) often.Advance({now_us});
    often.Arrived({arrival.t_us}, arrival.prompt_tokens);
    seldom.Arrived({arrival.t_us}, arrival.prompt_tokens);
  }
  const TimePoint end{log.arrivals.back().t_us + 1'000'000};
  often.Advance(end);
  seldom.Advance(end);
  EXPECT_EQ(seldom.ticks(), often.ticks());
  EXPECT_EQ(seldom.Forecast().probability, often.Forecast().probability);
}

TEST(ArrivalPredictor, ALongPauseCostsABoundedNumberOfTicks) {
  ArrivalPredictor predictor({0}, With(ForecastModel::kLstmV2), Untrained());
  Feed(MadeBursts(10, 0.2, 4), predictor);
  const int64_t before = predictor.ticks();
  predictor.Advance({int64_t{1} << 60});
  EXPECT_EQ(predictor.ticks() - before, ArrivalPredictor::kCatchUpTicks + 5);
  EXPECT_NEAR(Mean(predictor.Forecast()), BaseMean(0.0, Untrained().train_mean), 1e-5);
  EXPECT_EQ(predictor.ewma_score() < 0, true);
}

TEST(ArrivalPredictor, TimeThatGoesBackCountsAsNow) {
  ArrivalPredictor predictor({1'000'000}, With(ForecastModel::kEwma));
  predictor.Advance({2'000'000});
  const int64_t ticks = predictor.ticks();
  predictor.Arrived({5}, 10);
  predictor.Advance({5});
  EXPECT_EQ(predictor.ticks(), ticks);
  predictor.Advance({2'020'000});
  EXPECT_GT(Mean(predictor.Forecast()), 0.0);
}

TEST(ArrivalPredictor, ABadNetworkEndsInFallback) {
  TrainedPredictor model = Untrained();
  model.parameters[model.shape.head_bias()] = 8.0F;  // always e^4 arrivals
  ArrivalPredictor predictor({0}, With(ForecastModel::kLstmV2), model);
  const ArrivalLog log = MadeBursts(90, 0.3, 5);
  Feed(log, predictor);
  EXPECT_TRUE(predictor.fallback());
  EXPECT_LT(predictor.lstm_score(), predictor.ewma_score());
  EXPECT_LT(Mean(predictor.Forecast()), 4.0);
}

TEST(ArrivalPredictor, ANetworkThatBreaksAtWorkIsDropped) {
  TrainedPredictor model = Untrained();
  model.parameters[model.shape.head_bias()] = std::numeric_limits<float>::quiet_NaN();
  ArrivalPredictor predictor({0}, With(ForecastModel::kLstmV2), model);
  predictor.Advance({1'000'000});
  EXPECT_TRUE(predictor.fallback());
  EXPECT_NEAR(Sum(predictor.Forecast()), 1.0, 1e-5);
}

TEST(ArrivalPredictor, AMissingOrWrongFileMakesAMovingAverageAndAWarning) {
  const TemporaryFolder folder;
  folder.Write("wrong.safetensors", "no network");
  for (const std::string& file : {std::string(), folder / "none", folder / "wrong.safetensors"}) {
    const OpenedPredictor opened = OpenArrivalPredictor({0}, With(ForecastModel::kLstmV2), file);
    EXPECT_THAT(opened.warning.message(), HasSubstr("moving average")) << file;
    EXPECT_TRUE(opened.predictor.fallback());
  }
  EXPECT_TRUE(OpenArrivalPredictor({0}, With(ForecastModel::kEwma), "none").warning.ok());
}

TEST(ArrivalPredictor, AllocatesNothingOnceItIsMade) {
  ArrivalPredictor predictor({0}, With(ForecastModel::kLstmV2), Untrained());
  const ArrivalLog log = MadeBursts(60, 0.2, 6);
  const std::optional<int64_t> before = HeapAllocationsOfThread();
  if (!before) GTEST_SKIP() << "allocations aren't counted here";
  double sum = 0;
  for (const LoggedArrival& arrival : log.arrivals) {
    predictor.Arrived({arrival.t_us}, arrival.prompt_tokens, 5, 1);
    sum += predictor.Forecast().probability[0];
  }
  predictor.Advance({600'000'000});
  EXPECT_EQ(*HeapAllocationsOfThread() - *before, 0);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace remontoir
