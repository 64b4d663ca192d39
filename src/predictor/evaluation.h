// How well forecasts fit what came: log loss, calibration, and the simple forecasters to beat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predictor/arrival_log.h"
#include "predictor/distributions.h"
#include "predictor/tick_series.h"
#include "predictor/trained_predictor.h"
#include "predictor/trainer.h"

namespace remontoir {

struct ForecastScore {
  std::string name;
  double loss = 0;     // mean of -ln P(what came), nats a tick, 17 classes
  double pit_ks = 0;   // largest distance of the mean PIT from the uniform; 0: calibrated
  double covered = 0;  // share of ticks with no more arrivals than the 95 % quantile
};

// Collects forecasts and outcomes. The PIT of a count is spread evenly over [P(N < y), P(N <= y)]
// (Czado, Gneiting and Held 2009), on a grid.
class ScoreKeeper {
 public:
  ScoreKeeper();
  void Add(const ClassProbabilities& classes, int arrivals);
  ForecastScore Score(const std::string& name) const;

 private:
  static constexpr int kGrid = 400;
  int64_t count_ = 0;
  int64_t covered_ = 0;
  double loss_ = 0;
  std::vector<double> partly_;     // [kGrid + 1]: of those whose range holds the grid's point
  std::vector<int64_t> finished_;  // [kGrid + 2]: those whose range ends at or before that point
};

// The time constant whose Poisson forecasts fit [begin, end) best.
int BestTauIndex(const TickSeries& series, double train_mean, int64_t begin, int64_t end);

// The one ln size that fits the moving average's means best on [0, end), from a sample of ticks.
double BestLogSize(const TickSeries& series, const BaseRule& base, int64_t end);

// On ticks from `begin` to the series' end.
ForecastScore ScoreConstant(const TickSeries& series, double mean, int64_t begin);
ForecastScore ScoreAverage(const TickSeries& series, const BaseRule& base, int64_t begin);
ForecastScore ScoreAverageNb(const TickSeries& series, const BaseRule& base, double log_size,
                             int64_t begin);
ForecastScore ScoreNetwork(const TickSeries& series, const BaseRule& base,
                           const TrainedNetwork& network, const std::string& name, int64_t begin);

// The whole predictor as a server runs it, with the network ("mixture") or without ("EWMA-mixed"),
// over the whole log, tick by tick, scored from `begin` on.
// `ticks`, when given, gets the number of ticks run.
ForecastScore ScorePredictor(const ArrivalLog& log, const TickSeries& series,
                             const TrainedPredictor* model, int64_t begin, int64_t* ticks);

}  // namespace remontoir
