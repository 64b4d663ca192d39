// One distance and two bounds.
#include "eval/row_error.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace remontoir {
namespace {

constexpr double kResiduals = 2;  // times the row's
constexpr double kErrorMin = 0.02;

}  // namespace

double RelativeError(std::span<const float> exact, std::span<const float> sparse) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double d = double{sparse[i]} - exact[i];
    difference += d * d;
    norm += double{exact[i]} * exact[i];
  }
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

bool IsMissedAlarm(double error, double residual) {
  return error > kErrorMin && error > kResiduals * residual;
}

}  // namespace remontoir
