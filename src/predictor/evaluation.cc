// One pass over the held-out ticks for each forecaster.
#include "predictor/evaluation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "predictor/arrival_predictor.h"

namespace remontoir {
namespace {

template <class Classes>
ForecastScore ScoreWith(const TickSeries& series, int64_t begin, const std::string& name,
                        const Classes& classes_of) {
  ScoreKeeper keeper;
  for (int64_t tick = begin; tick < series.size(); ++tick) {
    keeper.Add(classes_of(tick), series.targets[static_cast<size_t>(tick)]);
  }
  return keeper.Score(name);
}

double MeanOf(const TickSeries& series, const BaseRule& base, int64_t tick) {
  return BaseMean(series.RateAt(tick, base.tau_index), base.train_mean);
}

}  // namespace

ScoreKeeper::ScoreKeeper() : partly_(kGrid + 1), finished_(kGrid + 2) {}

void ScoreKeeper::Add(const ClassProbabilities& classes, int arrivals) {
  ++count_;
  loss_ += LogLoss(classes, arrivals);
  const int quantile = ArrivalForecast{classes}.Quantile(0.95F);
  const int outcome = std::clamp(arrivals, 0, kForecastClasses - 1);
  if (outcome <= quantile) ++covered_;
  double low = 0;
  for (int k = 0; k < outcome; ++k) low += classes[static_cast<size_t>(k)];
  const double width = std::max(1e-9, static_cast<double>(classes[static_cast<size_t>(outcome)]));
  low = std::min(low, 1.0);
  const double high = std::min(low + width, 1.0);
  int point = static_cast<int>(std::floor(low * kGrid)) + 1;
  for (; point <= kGrid && static_cast<double>(point) / kGrid < high; ++point) {
    partly_[static_cast<size_t>(point)] += (static_cast<double>(point) / kGrid - low) / width;
  }
  ++finished_[static_cast<size_t>(point)];
}

ForecastScore ScoreKeeper::Score(const std::string& name) const {
  ForecastScore score{name};
  if (count_ == 0) return score;
  const auto count = static_cast<double>(count_);
  score.loss = loss_ / count;
  score.covered = static_cast<double>(covered_) / count;
  int64_t finished = 0;
  for (int point = 0; point <= kGrid; ++point) {
    finished += finished_[static_cast<size_t>(point)];
    const double share =
        (static_cast<double>(finished) + partly_[static_cast<size_t>(point)]) / count;
    score.pit_ks = std::max(score.pit_ks, std::fabs(share - static_cast<double>(point) / kGrid));
  }
  return score;
}

int BestTauIndex(const TickSeries& series, double train_mean, int64_t begin, int64_t end) {
  int best = 0;
  double best_loss = 0;
  for (int tau_index = 0; tau_index < kRateCount; ++tau_index) {
    double loss = 0;
    for (int64_t tick = begin; tick < end; ++tick) {
      loss += LogLoss(PoissonClasses(MeanOf(series, {tau_index, train_mean}, tick)),
                      series.targets[static_cast<size_t>(tick)]);
    }
    if (tau_index == 0 || loss < best_loss) {
      best = tau_index;
      best_loss = loss;
    }
  }
  return best;
}

double BestLogSize(const TickSeries& series, const BaseRule& base, int64_t end) {
  constexpr int64_t kSampleTicks = 200'000;
  constexpr int kNarrowings = 30;
  const int64_t stride = std::max<int64_t>(1, end / kSampleTicks);
  const auto loss_at = [&](double log_size) {
    double loss = 0;
    for (int64_t tick = 0; tick < end; tick += stride) {
      loss += LossOf(MeanOf(series, base, tick), 0.0, log_size - kLogSizeBase,
                     series.targets[static_cast<size_t>(tick)])
                  .loss;
    }
    return loss;
  };
  double low = kLogSizeMin;
  double high = kLogSizeMax;
  for (int i = 0; i < kNarrowings; ++i) {  // the loss falls, then rises
    const double left = low + (high - low) / 3;
    const double right = high - (high - low) / 3;
    if (loss_at(left) < loss_at(right)) {
      high = right;
    } else {
      low = left;
    }
  }
  return (low + high) / 2;
}

ForecastScore ScoreConstant(const TickSeries& series, double mean, int64_t begin) {
  const ClassProbabilities classes = PoissonClasses(std::max(mean, 1e-6));
  return ScoreWith(series, begin, "constant Poisson", [&](int64_t) { return classes; });
}

ForecastScore ScoreAverage(const TickSeries& series, const BaseRule& base, int64_t begin) {
  return ScoreWith(series, begin, "EWMA-Poisson",
                   [&](int64_t tick) { return PoissonClasses(MeanOf(series, base, tick)); });
}

ForecastScore ScoreAverageNb(const TickSeries& series, const BaseRule& base, double log_size,
                             int64_t begin) {
  return ScoreWith(series, begin, "EWMA-NB", [&](int64_t tick) {
    return NegativeBinomialClasses(
        DistributionOf(MeanOf(series, base, tick), 0.0, log_size - kLogSizeBase));
  });
}

ForecastScore ScoreNetwork(const TickSeries& series, const BaseRule& base,
                           const TrainedNetwork& network, const std::string& name, int64_t begin) {
  NetworkRun run(series, network.shape, network.parameters, begin);
  return ScoreWith(series, begin, name, [&](int64_t tick) {
    const auto out = run.Next();
    return NegativeBinomialClasses(DistributionOf(MeanOf(series, base, tick), out[0], out[1]));
  });
}

ForecastScore ScorePredictor(const ArrivalLog& log, const TickSeries& series,
                             const TrainedPredictor* model, int64_t begin, int64_t* ticks) {
  ArrivalPredictorOptions options;
  options.model = model != nullptr ? ForecastModel::kLstmV2 : ForecastModel::kEwma;
  options.tick_ms = series.tick_ms;
  options.local_offset_us = LocalOffsetOf(log);
  const int64_t start_us = log.arrivals.front().t_us;
  std::optional<TrainedPredictor> network;
  if (model != nullptr) network = *model;
  ArrivalPredictor predictor({start_us}, options, std::move(network));
  size_t next = 0;
  const auto forecast_of = [&](int64_t tick) {
    const TimePoint end{start_us + (tick + 1) * series.tick_ms * 1000};
    for (; next < log.arrivals.size() && log.arrivals[next].t_us < end.us; ++next) {
      const LoggedArrival& arrival = log.arrivals[next];
      predictor.Arrived({arrival.t_us}, arrival.prompt_tokens, arrival.client_cell, arrival.device);
    }
    predictor.Advance(end);
    return predictor.Forecast().probability;
  };
  for (int64_t tick = 0; tick < begin; ++tick) forecast_of(tick);
  ForecastScore score =
      ScoreWith(series, begin, model != nullptr ? "mixture" : "EWMA-mixed", forecast_of);
  if (ticks != nullptr) *ticks = predictor.ticks();
  return score;
}

}  // namespace remontoir
