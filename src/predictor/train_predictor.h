// From a log to a predictor, with the table that says what it is worth.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "predictor/evaluation.h"

namespace remontoir {

struct TrainPredictorOptions {
  int tick_ms = 20;
  int hidden = 24;  // 1..kHiddenMax
  int epochs = 8;   // 1..1000
  uint64_t seed = 1;
  std::string log_digest;  // goes into the file's metadata
};

struct TrainingReport {
  TrainedPredictor model;
  TickSeries series;
  TickSplit split;
  int best_epoch = 0;
  // On the held-out part: constant, EWMA-Poisson, EWMA-NB, EWMA-mixed, GLM-NB, LSTM-NB. The
  // mixture's line is ScorePredictor's to add (and a caller's with a clock to time).
  std::vector<ForecastScore> scores;
};

// "GLM" or "LSTM", epoch and validation loss.
using TrainingProgress = std::function<void(const std::string& what, int epoch, double loss)>;

// An error says what of the log or the options doesn't do.
Result<TrainingReport> TrainPredictor(const ArrivalLog& log, const TrainPredictorOptions& options,
                                      const TrainingProgress& progress);

// Adds a score to the report, and to the model's metadata.
void AddScore(const ForecastScore& score, TrainingReport& report);

// Plain sentences: where the network wins and where it loses on the held-out part.
std::vector<std::string> Verdicts(const std::vector<ForecastScore>& scores);

}  // namespace remontoir
