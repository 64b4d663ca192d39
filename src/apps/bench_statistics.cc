// Sorts a copy: benches measure a handful of times.
#include "apps/bench_statistics.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace remontoir {

Spread SpreadOf(std::span<const double> values) {
  REM_CHECK(!values.empty(), "a spread needs a value");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {median, sorted.front(), sorted.back()};
}

}  // namespace remontoir
