// Training: the gradient, the seed, and that bursts are learnt.
#include "predictor/train_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/predictor/made_log.h"

namespace remontoir {
namespace {

using testing::HasSubstr;

TrainPredictorOptions Small() {
  TrainPredictorOptions options;
  options.hidden = 4;
  options.epochs = 4;
  return options;
}

Result<TrainingReport> Train(const ArrivalLog& log, const TrainPredictorOptions& options) {
  return TrainPredictor(log, options, [](const std::string&, int, double) {});
}

TEST(StretchGradient, MatchesCentralDifferences) {
  const ArrivalLog log = MadeBursts(60, 0.5, 1);
  const Result<TickSeries> series = MakeTickSeries(log, 20, MaskOf(log));
  ASSERT_TRUE(series.ok());
  for (const int hidden : {0, 3, 24}) {
    EXPECT_LE(CheckGradient(*series, {2, 0.5}, hidden, 150, 7), 5e-3) << hidden;
  }
}

TEST(TickSeries, TargetsAreTheArrivalsOfTheNext100Ms) {
  ArrivalLog log;
  for (const int64_t ms : {0, 19, 20, 119, 120, 400}) {
    log.arrivals.push_back({ms * 1000, 10, 10});
  }
  const Result<TickSeries> series = MakeTickSeries(log, 20, FeatureMask().set());
  ASSERT_TRUE(series.ok());
  ASSERT_EQ(series->size(), 15);
  EXPECT_EQ(series->targets[0], 2);  // from 20 ms to before 120 ms
  EXPECT_EQ(series->targets[1], 2);  // 119 and 120
  EXPECT_EQ(series->targets[4], 2);
  EXPECT_EQ(series->targets[5], 1);
  EXPECT_EQ(series->targets[6], 0);
  EXPECT_FLOAT_EQ(series->FeaturesAt(0)[0], std::log(3.0F));
  EXPECT_FLOAT_EQ(series->FeaturesAt(1)[0], std::log(2.0F));
}

TEST(TrainPredictor, IsTheSameForTheSameSeed) {
  const ArrivalLog log = MadeBursts(60, 0.5, 2);
  TrainPredictorOptions options = Small();
  const Result<TrainingReport> first = Train(log, options);
  const Result<TrainingReport> again = Train(log, options);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(EncodePredictor(first->model), EncodePredictor(again->model));
  options.seed = 2;
  const Result<TrainingReport> other = Train(log, options);
  EXPECT_NE(first->model.parameters, other->model.parameters);
}

TEST(TrainNetwork, StartsAsTheMovingAverage) {
  const ArrivalLog log = MadeBursts(60, 0.5, 6);
  const Result<TickSeries> series = MakeTickSeries(log, 20, MaskOf(log));
  ASSERT_TRUE(series.ok());
  const TrainedNetwork untrained =
      TrainNetwork(*series, SplitTicks(*series), {2, 0.5}, {8, 0, 1}, [](int, double) {});
  NetworkRun run(*series, untrained.shape, untrained.parameters, 0);
  for (int64_t tick = 0; tick < series->size(); ++tick) {
    const auto out = run.Next();
    ASSERT_EQ(out[0], 0.0F);
    ASSERT_EQ(out[1], 0.0F);
  }
}

TEST(TrainPredictor, LearnsThatABurstGoesOn) {
  const ArrivalLog log = MadeBursts(900, 0.6, 3);
  TrainPredictorOptions options = Small();
  options.hidden = 8;
  options.epochs = 12;
  Result<TrainingReport> report = Train(log, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->scores.size(), 6U);
  const double average = report->scores[1].loss;
  EXPECT_LT(report->scores[5].loss, 0.9 * average);
  AddScore(
      ScorePredictor(log, report->series, &report->model, report->split.validation_end, nullptr),
      *report);
  EXPECT_LT(report->scores[6].loss, 0.9 * average);
  const std::vector<std::string> lines = Verdicts(report->scores);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[0], HasSubstr("LSTM-NB beats EWMA-Poisson by"));
}

TEST(TrainPredictor, SaysPlainlyWhereTheNetworkLoses) {
  const std::vector<std::string> lines =
      Verdicts({{"constant Poisson", 0.9}, {"EWMA-Poisson", 0.5}, {"LSTM-NB", 0.6}});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("LSTM-NB LOSES to EWMA-Poisson by 20.00 %"));
  EXPECT_THAT(lines[1], HasSubstr("worth nothing"));
}

TEST(TrainPredictor, RefusesOptionsAndLogsThatWontDo) {
  const ArrivalLog log = MadeBursts(60, 0.5, 4);
  TrainPredictorOptions options = Small();
  options.tick_ms = 30;
  EXPECT_THAT(Train(log, options).status().message(), HasSubstr("--tick-ms"));
  options = Small();
  options.hidden = 25;
  EXPECT_THAT(Train(log, options).status().message(), HasSubstr("--hidden"));
  options = Small();
  options.epochs = 0;
  EXPECT_THAT(Train(log, options).status().message(), HasSubstr("--epochs"));
  EXPECT_THAT(Train(MadeBursts(3, 0.5, 5), Small()).status().message(), HasSubstr("too short"));
  ArrivalLog years = log;
  years.arrivals.back().t_us = int64_t{1} << 52;
  EXPECT_THAT(Train(years, Small()).status().message(), HasSubstr("longer ticks"));
}

TEST(TrainPredictor, SplitsAWeekInWholeDays) {
  TickSeries series;
  series.tick_ms = 50;
  const int64_t day = 86'400'000 / 50;
  series.targets.resize(static_cast<size_t>(9 * day + 5));
  const TickSplit week = SplitTicks(series);
  EXPECT_EQ(week.train_end, 7 * day);
  EXPECT_EQ(week.validation_end, 8 * day);
  series.targets.resize(1000);
  const TickSplit hour = SplitTicks(series);
  EXPECT_EQ(hour.train_end, 600);
  EXPECT_EQ(hour.validation_end, 750);
}

}  // namespace
}  // namespace remontoir
