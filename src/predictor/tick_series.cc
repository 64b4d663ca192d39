// Runs the streaming features over a whole log.
#include "predictor/tick_series.h"

#include <algorithm>

#include "predictor/forecast.h"

namespace remontoir {
namespace {

constexpr int64_t kDayUs = 86'400'000'000;
constexpr int64_t kDaysOfWholeDaySplit = 7;
constexpr int64_t kHourFeatureDaysMin = 2;  // less shows each hour once: learnt by heart
// A network's target; what lies above is one class.
constexpr int32_t kTargetMax = 255;

}  // namespace

FeatureMask MaskOf(const ArrivalLog& log) {
  FeatureMask mask = FeatureMask().set();
  mask[kFeatureEntropy] = log.has_clients;
  mask[kFeatureDevice] = log.has_devices;
  const bool hours = log.HasWallClock() && log.SpanUs() >= kHourFeatureDaysMin * kDayUs;
  mask[kFeatureHourSine] = mask[kFeatureHourCosine] = mask[kFeatureWeekend] = hours;
  return mask;
}

std::optional<int64_t> LocalOffsetOf(const ArrivalLog& log) {
  return log.HasWallClock() ? std::optional<int64_t>(0) : std::nullopt;
}

Result<TickSeries> MakeTickSeries(const ArrivalLog& log, int tick_ms, const FeatureMask& mask) {
  const int64_t tick_us = int64_t{tick_ms} * 1000;
  const int64_t horizon_ticks = kForecastHorizonMs / tick_ms;
  const int64_t all_ticks = log.SpanUs() / tick_us;
  if (all_ticks > kSeriesTicksMax) {
    return InvalidArgument("the log spans " + std::to_string(all_ticks) + " ticks of " +
                           std::to_string(tick_ms) + " ms, more than " +
                           std::to_string(kSeriesTicksMax) +
                           ": take longer ticks (--tick-ms 50) or a part of it");
  }
  TickSeries series;
  series.tick_ms = tick_ms;
  series.mask = mask;
  const auto ticks = static_cast<size_t>(std::max<int64_t>(0, all_ticks - horizon_ticks));
  series.features.reserve(ticks * kFeatureCount);
  series.rates.reserve(ticks * kRateCount);
  series.targets.assign(ticks, 0);
  if (ticks == 0) return series;
  ArrivalFeatures features({log.arrivals.front().t_us}, tick_ms, mask, LocalOffsetOf(log));
  size_t next = 0;
  for (int64_t tick = 0; tick < all_ticks; ++tick) {
    for (; next < log.arrivals.size() && log.arrivals[next].t_us < features.tick_end().us; ++next) {
      const LoggedArrival& arrival = log.arrivals[next];
      features.Arrived({arrival.t_us}, arrival.prompt_tokens, arrival.client_cell, arrival.device);
    }
    features.EndTick();
    for (int64_t t = std::max<int64_t>(0, tick - horizon_ticks); t < std::min(tick, series.size());
         ++t) {
      int32_t& target = series.targets[static_cast<size_t>(t)];
      target = std::min(kTargetMax, target + features.count());
    }
    if (tick >= series.size()) continue;
    series.features.insert(series.features.end(), features.values().begin(),
                           features.values().end());
    for (int i = 0; i < kRateCount; ++i) {
      series.rates.push_back(static_cast<float>(features.Rate(i)));
    }
  }
  return series;
}

TickSplit SplitTicks(const TickSeries& series) {
  const int64_t day = kDayUs / (int64_t{series.tick_ms} * 1000);
  const int64_t days = series.size() / day;
  if (days >= kDaysOfWholeDaySplit) return {(days - 2) * day, (days - 1) * day};
  return {series.size() * 60 / 100, series.size() * 75 / 100};
}

}  // namespace remontoir
