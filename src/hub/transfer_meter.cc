// Windows for stalls; an exponential average for the rate.
#include "hub/transfer_meter.h"

#include <cmath>

namespace remontoir {
namespace {

constexpr int64_t kSampleUs = 200'000;
constexpr double kSmoothingUs = 3e6;

}  // namespace

bool StallWatch::Stalled(TimePoint now, int64_t bytes) {
  if (ElapsedUs(window_start_, now) < window_us_) return false;
  const bool stalled = bytes - window_bytes_ < bytes_min_;
  window_start_ = now;
  window_bytes_ = bytes;
  return stalled;
}

double RateMeter::Add(TimePoint now, int64_t bytes) {
  pending_bytes_ += bytes;
  const int64_t elapsed_us = ElapsedUs(last_, now);
  if (elapsed_us < kSampleUs) return bytes_per_s_;
  const double sample = static_cast<double>(pending_bytes_) * 1e6 / static_cast<double>(elapsed_us);
  const double keep = begun_ ? std::exp(-static_cast<double>(elapsed_us) / kSmoothingUs) : 0.0;
  bytes_per_s_ = keep * bytes_per_s_ + (1 - keep) * sample;
  begun_ = true;
  last_ = now;
  pending_bytes_ = 0;
  return bytes_per_s_;
}

}  // namespace remontoir
