// The predictor on the shipped traces: what the held-out part must show.
#include <gtest/gtest.h>

#include "predictor/train_predictor.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

constexpr double kPitKsMax = 0.025;

Result<TrainingReport> TrainOn(const std::string& trace) {
  REM_ASSIGN_OR_RETURN(const ArrivalLog log, ReadArrivalLog(TestData("traces/" + trace)));
  REM_ASSIGN_OR_RETURN(TrainingReport report,
                       TrainPredictor(log, {}, [](const std::string&, int, double) {}));
  AddScore(ScorePredictor(log, report.series, &report.model, report.split.validation_end, nullptr),
           report);
  return report;
}

const ForecastScore& ScoreOf(const TrainingReport& report, std::string_view name) {
  for (const ForecastScore& score : report.scores) {
    if (score.name == name) return score;
  }
  ADD_FAILURE() << "no score of " << name;
  return report.scores.front();
}

TEST(PredictorOnTraces, BeatsTheAverageOnCodeByThreePercent) {
  const Result<TrainingReport> report = TrainOn("azure2023_code.csv");
  ASSERT_TRUE(report.ok()) << report.status().message();
  const ForecastScore& lstm = ScoreOf(*report, "LSTM-NB");
  EXPECT_LE(lstm.loss, 0.97 * ScoreOf(*report, "EWMA-NB").loss);
  EXPECT_LE(lstm.pit_ks, kPitKsMax);
  EXPECT_LE(ScoreOf(*report, "mixture").pit_ks, kPitKsMax);
}

TEST(PredictorOnTraces, MixtureDoesNoHarmOnChat) {
  const Result<TrainingReport> report = TrainOn("azure2023_conv.csv");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LE(ScoreOf(*report, "mixture").loss, ScoreOf(*report, "EWMA-Poisson").loss + 0.001);
  EXPECT_LE(ScoreOf(*report, "LSTM-NB").pit_ks, kPitKsMax);
}

TEST(PredictorOnTraces, TheShippedNetworkDoesWhatItsFileSays) {
  const Result<TrainedPredictor> shipped = ReadPredictor(
      std::string(REMONTOIR_SOURCE_DIR) + "/data/predictor/azure2023_code.safetensors");
  ASSERT_TRUE(shipped.ok()) << shipped.status().message();
  const Result<ArrivalLog> log = ReadArrivalLog(TestData("traces/azure2023_code.csv"));
  ASSERT_TRUE(log.ok()) << log.status().message();
  const Result<TickSeries> series = MakeTickSeries(*log, shipped->tick_ms, shipped->mask);
  ASSERT_TRUE(series.ok());
  const int64_t held_out = SplitTicks(*series).validation_end;
  const BaseRule base{shipped->tau_index, shipped->train_mean};
  const double loss = ScorePredictor(*log, *series, &*shipped, held_out, nullptr).loss;
  EXPECT_LE(loss, 0.97 * ScoreAverage(*series, base, held_out).loss);
  // Another libm may round differently; the file says what it was when it was made.
  EXPECT_NEAR(loss, std::stod(shipped->notes.at("loss_mixture")), 1e-4);
}

}  // namespace
}  // namespace remontoir
