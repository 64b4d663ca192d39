// A few numbers for many: mean, scatter and quantiles of measured values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace remontoir {

// All 0 when count is 0.
struct Distribution {
  int64_t count = 0;
  double mean = 0;
  double std = 0;  // of the values as a whole
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

// A quantile of sorted values, q from 0 to 1; 0 of none.
using QuantileRule = double (*)(std::span<const double> sorted, double q);
// The value that so large a share of all reaches: one that was measured.
double NearestRank(std::span<const double> sorted, double q);
// Linear between neighbours.
double Quantile(std::span<const double> sorted, double q);

Distribution DistributionOf(std::vector<double> values, QuantileRule quantile = NearestRank);

}  // namespace remontoir
