// A log as the network sees it: features, rates and targets of every tick.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "predictor/arrival_log.h"
#include "predictor/features.h"

namespace remontoir {

struct TickSeries {
  int tick_ms = 20;
  FeatureMask mask;
  std::vector<float> features;   // [ticks][18], at the end of each tick
  std::vector<float> rates;      // [ticks][6], per second
  std::vector<int32_t> targets;  // [ticks]: arrivals in the 100 ms after the tick

  int64_t size() const { return static_cast<int64_t>(targets.size()); }
  const float* FeaturesAt(int64_t tick) const { return features.data() + tick * kFeatureCount; }
  double RateAt(int64_t tick, int tau_index) const {
    return rates[static_cast<size_t>(tick * kRateCount + tau_index)];
  }
};

// A series takes about 100 bytes a tick: so many at most (about 1.6 GB, 9 days of 50 ms ticks).
inline constexpr int64_t kSeriesTicksMax = 16'000'000;

// Which features a log can feed: no clients, no entropy; no devices, no share of them; no wall
// clock or fewer than two days, no hours and weekends.
FeatureMask MaskOf(const ArrivalLog& log);

// Local time of a log's TimePoints, for ArrivalFeatures: UTC where it has a wall clock.
std::optional<int64_t> LocalOffsetOf(const ArrivalLog& log);

// Ticks from the first arrival on, as long as their whole target lies in the log. An error says
// when there are too many.
Result<TickSeries> MakeTickSeries(const ArrivalLog& log, int tick_ms, const FeatureMask& mask);

// Which ticks train, choose and judge: [0, train_end), [train_end, validation_end), the rest.
struct TickSplit {
  int64_t train_end = 0;
  int64_t validation_end = 0;
};

// 60/15/25 %; from seven days on whole days from the start, the last one judges and the one before
// it chooses.
TickSplit SplitTicks(const TickSeries& series);

}  // namespace remontoir
