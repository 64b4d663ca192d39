// What the predictor sees of the past: 18 numbers at the end of every tick, kept up as requests
// come.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "predictor/arrival_log.h"

namespace remontoir {

inline constexpr int kFeatureCount = 18;
inline constexpr int kRateCount = 6;
// Time constants of the rates, seconds.
inline constexpr std::array<double, kRateCount> kRateTausS = {0.05, 0.2, 1.0, 5.0, 30.0, 300.0};

using FeatureVector = std::array<float, kFeatureCount>;
using FeatureMask = std::bitset<kFeatureCount>;  // off: that feature is 0 always

// Features whose inputs a log or a server may lack.
inline constexpr int kFeatureHourSine = 8;
inline constexpr int kFeatureHourCosine = 9;
inline constexpr int kFeatureEntropy = 13;
inline constexpr int kFeatureDevice = 14;
inline constexpr int kFeatureWeekend = 15;

// The features, of a tick that just ended with `count` arrivals:
//   0       ln(1 + count)
//   1..6    (ln(0.1 rate + 0.001) + 2.3) / 2, rates per second decaying with kRateTausS
//   7       ln(1 + 10 gap) / 2, gap = seconds since the last arrival
//   8, 9    sine and cosine of the local hour
//   10..12  of ln(1 + prompt tokens), weight 0.05 a request: (mean - 5) / 2, share of prompts below
//           64 tokens, standard deviation
//   13      half the entropy (nats) of the clients' cells, decaying in 10 s
//   14      share of the first device class, weight 0.05 a request; 0.5 before any is known
//   15      1 on Saturdays and Sundays
//   16      min(1, count / 4)
//   17      1
class ArrivalFeatures {
 public:
  // Ticks of `tick_ms` from `start` on. `local_offset_us` added to a TimePoint gives microseconds
  // since 1970 on the local clock; unset: features 8, 9 and 15 are 0.
  ArrivalFeatures(TimePoint start, int tick_ms, FeatureMask mask,
                  std::optional<int64_t> local_offset_us);

  // A request in the tick that hasn't ended yet.
  void Arrived(TimePoint at, int32_t prompt_tokens, int client_cell, int device);
  // That tick is over.
  void EndTick();
  // As if so many ticks without arrivals had ended, for any number of them at the same cost. The
  // current tick must be empty. The next EndTick makes the features.
  void SkipTicks(int64_t ticks);

  const FeatureVector& values() const { return values_; }  // of the last tick that ended
  int count() const { return last_count_; }                // its arrivals
  double Rate(int tau_index) const { return rates_[static_cast<size_t>(tau_index)]; }  // per second
  TimePoint tick_end() const { return tick_end_; }  // of the tick that hasn't ended yet
  int tick_ms() const { return tick_ms_; }

 private:
  void MakeValues(TimePoint now);
  void CountClient(TimePoint at, int client_cell);

  int tick_ms_;
  FeatureMask mask_;
  std::optional<int64_t> local_offset_us_;
  std::array<double, kRateCount> decays_{};
  std::array<double, kRateCount> rates_{};
  TimePoint tick_end_;
  TimePoint last_arrival_;  // or the start
  int count_ = 0;           // in the tick that hasn't ended
  int last_count_ = 0;
  // Of ln(1 + prompt tokens): moving mean and mean square; share of short prompts.
  bool prompts_seen_ = false;
  double prompt_mean_ = 5.0;
  double prompt_square_ = 25.0;
  double short_share_ = 0.0;
  double first_device_share_ = 0.5;
  std::array<float, kClientCells> cells_{};  // decayed counts
  TimePoint cells_at_;                       // when they were last decayed
  double entropy_ = 0.0;
  FeatureVector values_{};
};

}  // namespace remontoir
