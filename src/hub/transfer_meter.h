// Watches a transfer's speed: too slow to go on, and how fast for the person who waits.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace remontoir {

// Says when fewer than bytes_min came in the last window.
class StallWatch {
 public:
  StallWatch(TimePoint start, int64_t window_ms, int64_t bytes_min)
      : window_start_(start), window_us_(window_ms * 1000), bytes_min_(bytes_min) {}

  // `bytes` that came since the start, at `now`.
  bool Stalled(TimePoint now, int64_t bytes);

 private:
  TimePoint window_start_;
  int64_t window_us_;
  int64_t bytes_min_;
  int64_t window_bytes_ = 0;  // that had come when the window began
};

// Bytes a second, smoothed over about three seconds.
class RateMeter {
 public:
  explicit RateMeter(TimePoint start) : last_(start) {}

  // `bytes` that came since the last call; the rate after them.
  double Add(TimePoint now, int64_t bytes);

 private:
  TimePoint last_;
  int64_t pending_bytes_ = 0;
  double bytes_per_s_ = 0;
  bool begun_ = false;
};

}  // namespace remontoir
