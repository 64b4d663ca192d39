// What a replay says in a few numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulation/replay.h"

namespace remontoir {

struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
  double std = 0;  // of the population
};

// Quantile of sorted values, linear between neighbours; 0 of none.
double Quantile(std::span<const double> sorted, double q);
// All zero of none. Sorts the values.
Distribution DistributionOf(std::vector<double>& values);

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
