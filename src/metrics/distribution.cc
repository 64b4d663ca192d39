// Sums and sorted values.
#include "metrics/distribution.h"

#include <algorithm>
#include <cmath>

namespace remontoir {

double NearestRank(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(q * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double Quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

Distribution DistributionOf(std::vector<double> values, QuantileRule quantile) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.count = static_cast<int64_t>(values.size()),
          .mean = mean,
          .std = std::sqrt(squares / count),
          .p50 = quantile(values, 0.50),
          .p95 = quantile(values, 0.95),
          .p99 = quantile(values, 0.99),
          .max = values.back()};
}

}  // namespace remontoir
