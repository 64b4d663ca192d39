// Streaming features: nothing is remembered but decayed sums.
#include "predictor/features.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr double kRequestWeight = 0.05;  // of the newest request in a moving mean
constexpr int32_t kShortPromptTokens = 64;
constexpr double kClientDecayS = 10.0;
constexpr double kRateFloor = 1e-30;  // below it a rate is 0: denormal numbers are slow
constexpr int kTickCountMax = 1 << 20;
constexpr int64_t kDayUs = 86'400'000'000;

double Seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }

void MoveTowards(double value, double& mean) { mean += kRequestWeight * (value - mean); }

}  // namespace

ArrivalFeatures::ArrivalFeatures(TimePoint start, int tick_ms, FeatureMask mask,
                                 std::optional<int64_t> local_offset_us)
    : tick_ms_(tick_ms),
      mask_(mask),
      local_offset_us_(local_offset_us),
      tick_end_{start.us + int64_t{tick_ms} * 1000},
      last_arrival_(start),
      cells_at_(start) {
  REM_CHECK(tick_ms > 0, "a tick takes time");
  for (size_t i = 0; i < kRateTausS.size(); ++i) {
    decays_[i] = std::exp(-1e-3 * tick_ms / kRateTausS[i]);
  }
  MakeValues(start);
}

void ArrivalFeatures::CountClient(TimePoint at, int client_cell) {
  // All cells decay alike, so shares and entropy change only when one is counted.
  const auto decay =
      static_cast<float>(std::exp(-Seconds(ElapsedUs(cells_at_, at)) / kClientDecayS));
  cells_at_ = at;
  float sum = 0.0F;
  for (float& cell : cells_) {
    cell = cell * decay > 1e-20F ? cell * decay : 0.0F;
    sum += cell;
  }
  cells_[static_cast<size_t>(client_cell)] += 1.0F;
  sum += 1.0F;
  float weighted = 0.0F;
  for (const float cell : cells_) {
    if (cell > 0.0F) weighted += cell * std::log(cell);
  }
  entropy_ = std::max(0.0F, std::log(sum) - weighted / sum);
}

void ArrivalFeatures::Arrived(TimePoint at, int32_t prompt_tokens, int client_cell, int device) {
  at = std::max(at, last_arrival_);
  last_arrival_ = at;
  count_ = std::min(count_ + 1, kTickCountMax);
  const double size = std::log1p(std::max(prompt_tokens, 0));
  const double is_short = prompt_tokens < kShortPromptTokens ? 1.0 : 0.0;
  if (!prompts_seen_) {
    prompts_seen_ = true;
    prompt_mean_ = size;
    prompt_square_ = size * size;
    short_share_ = is_short;
  } else {
    MoveTowards(size, prompt_mean_);
    MoveTowards(size * size, prompt_square_);
    MoveTowards(is_short, short_share_);
  }
  if (device >= 0) MoveTowards(device == 0 ? 1.0 : 0.0, first_device_share_);
  if (mask_[kFeatureEntropy] && client_cell >= 0 && client_cell < kClientCells) {
    CountClient(at, client_cell);
  }
}

void ArrivalFeatures::EndTick() {
  const double seconds = 1e-3 * tick_ms_;
  for (size_t i = 0; i < rates_.size(); ++i) {
    rates_[i] = rates_[i] * decays_[i] + count_ * (1.0 - decays_[i]) / seconds;
    if (rates_[i] < kRateFloor) rates_[i] = 0.0;
  }
  last_count_ = count_;
  count_ = 0;
  MakeValues(tick_end_);
  tick_end_.us += int64_t{tick_ms_} * 1000;
}

void ArrivalFeatures::SkipTicks(int64_t ticks) {
  REM_CHECK(count_ == 0 && ticks >= 0, "only empty ticks are skipped");
  const double seconds = 1e-3 * tick_ms_ * static_cast<double>(ticks);
  for (size_t i = 0; i < rates_.size(); ++i) {
    rates_[i] *= std::exp(-seconds / kRateTausS[i]);
    if (rates_[i] < kRateFloor) rates_[i] = 0.0;
  }
  last_count_ = 0;
  tick_end_.us += int64_t{tick_ms_} * 1000 * ticks;
}

void ArrivalFeatures::MakeValues(TimePoint now) {
  FeatureVector& v = values_;
  v[0] = std::log1p(static_cast<float>(last_count_));
  for (size_t i = 0; i < rates_.size(); ++i) {
    v[1 + i] = 0.5F * (std::log(static_cast<float>(0.1 * rates_[i] + 1e-3)) + 2.3F);
  }
  const int64_t gap_us = std::max<int64_t>(0, ElapsedUs(last_arrival_, now));
  v[7] = 0.5F * std::log1p(static_cast<float>(10.0 * Seconds(gap_us)));
  if (local_offset_us_) {
    const int64_t local_us = now.us + *local_offset_us_;
    const int64_t in_day_us = (local_us % kDayUs + kDayUs) % kDayUs;
    const int64_t day = (local_us - in_day_us) / kDayUs;
    const double angle =
        2.0 * std::numbers::pi * static_cast<double>(in_day_us) / static_cast<double>(kDayUs);
    v[kFeatureHourSine] = static_cast<float>(std::sin(angle));
    v[kFeatureHourCosine] = static_cast<float>(std::cos(angle));
    const int64_t weekday = ((day + 4) % 7 + 7) % 7;  // 0: Sunday; 1970 began on a Thursday
    v[kFeatureWeekend] = weekday == 0 || weekday == 6 ? 1.0F : 0.0F;
  }
  v[10] = static_cast<float>(0.5 * (prompt_mean_ - 5.0));
  v[11] = static_cast<float>(short_share_);
  v[12] =
      static_cast<float>(std::sqrt(std::max(0.0, prompt_square_ - prompt_mean_ * prompt_mean_)));
  v[kFeatureEntropy] = static_cast<float>(0.5 * entropy_);
  v[kFeatureDevice] = static_cast<float>(first_device_share_);
  v[16] = std::min(1.0F, 0.25F * static_cast<float>(last_count_));
  v[17] = 1.0F;
  for (size_t i = 0; i < v.size(); ++i) {
    if (!mask_[i]) v[i] = 0.0F;
  }
}

}  // namespace remontoir
