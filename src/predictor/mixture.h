// How far to trust the network beside the moving average, learnt as targets come true.
#pragma once

#include <array>
#include <cstdint>

#include "predictor/distributions.h"
#include "predictor/features.h"

namespace remontoir {

// Mean log scores (ln of what was given to what came) of the last 300 s, in buckets of a second.
class ScoreWindow {
 public:
  explicit ScoreWindow(int tick_ms);

  void Add(double average_score, double network_score);
  // Ticks that nobody scored: what they push out of the window is gone.
  void Skip(int64_t ticks);

  int64_t count() const { return count_; }  // scored ticks in the window
  double average_score() const { return Mean(average_sum_); }
  double network_score() const { return Mean(network_sum_); }

 private:
  static constexpr int kBuckets = 300;
  struct Bucket {
    int64_t count = 0;
    double average = 0;
    double network = 0;
  };

  void NextBucket();
  double Mean(double sum) const { return count_ > 0 ? sum / static_cast<double>(count_) : 0.0; }

  int ticks_per_bucket_;
  int ticks_in_bucket_ = 0;
  int current_ = 0;
  std::array<Bucket, kBuckets> buckets_{};
  // Of all buckets; made anew with every bucket, so that rounding doesn't pile up.
  int64_t count_ = 0;
  double average_sum_ = 0;
  double network_sum_ = 0;
};

// Poisson forecasts from moving averages of all kRateTausS as one forecaster, weighed like the
// experts below. No time constant is right for every traffic; on both shipped traces this does
// better than the best one.
class AverageMixture {
 public:
  using Averages = std::array<ClassProbabilities, kRateCount>;

  explicit AverageMixture(int tick_ms);

  void Resolve(const Averages& averages, int arrivals);
  ClassProbabilities Mix(const Averages& averages) const;
  double weight(int tau_index) const { return weights_[static_cast<size_t>(tau_index)]; }

 private:
  double power_;
  std::array<double, kRateCount> weights_;
};

// Two experts, the moving average and the network. Their weights follow
// w *= p(arrivals)^(tick / horizon), as the targets of neighbouring ticks overlap, then 1e-4 of all
// weight is shared out evenly, so that none is ever out of reach.
class ForecastMixture {
 public:
  explicit ForecastMixture(int tick_ms);

  // The target of a tick is known: what both experts had said, and what came.
  void Resolve(const ClassProbabilities& average, const ClassProbabilities& network, int arrivals);
  void SkipTicks(int64_t ticks) { scores_.Skip(ticks); }

  ClassProbabilities Mix(const ClassProbabilities& average,
                         const ClassProbabilities& network) const;

  double network_weight() const { return network_weight_; }
  const ScoreWindow& scores() const { return scores_; }
  // Use the moving average alone: the network's weight has been below 0.05 for 60 s, or its mean
  // score of the last 300 s (once 60 s of them are scored) is below the moving average's.
  bool fallback() const;

 private:
  int tick_ms_;
  double network_weight_ = 0.5;
  int64_t ticks_distrusted_ = 0;
  ScoreWindow scores_;
};

}  // namespace remontoir
