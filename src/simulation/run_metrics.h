// What a replay says in a few numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/distribution.h"
#include "simulation/replay.h"

namespace remontoir {

// A gap between tokens counts as a stall by what it is longer than this.
inline constexpr int64_t kStallFromUs = 50'000;

struct RunMetrics {
  double requests = 0;
  double refused = 0;
  Distribution ttft_ms;
  Distribution itl_ms;
  double stall_ms = 0;      // sum over a request's gaps, mean over requests with a token
  double utilisation = 0;   // occupied slots of all, over the time in which rounds ran
  double busy = 0;          // share of time in which rounds ran
  double tokens_per_s = 0;  // generated
};

// Of the requests that arrived and the rounds that began at from_us or later and before to_us.
RunMetrics MetricsOf(const Replayed& replayed, int64_t from_us = INT64_MIN,
                     int64_t to_us = INT64_MAX);

// Number by number. `runs` isn't empty.
RunMetrics MeanOf(std::span<const RunMetrics> runs);

}  // namespace remontoir
