// The formulas, in seconds.
#include "scheduler/window.h"

#include <algorithm>
#include <cmath>

namespace remontoir {

int64_t AdaptiveWindowUs(const SchedulerOptions& options, const WindowInputs& inputs) {
  const double pressure = options.stall_weight * inputs.decode_rows +
                          options.forecast_weight * inputs.arrivals_per_s / 2 + 0.001;
  const double prompts = std::max(inputs.prompts, 1);
  const double s = inputs.overhead_s + std::sqrt(prompts * inputs.overhead_s / pressure);
  return std::clamp(static_cast<int64_t>(std::min(s, 1e6) * 1e6), options.window_us_min,
                    options.window_us_max);
}

CutRule::CutRule(const SchedulerOptions& options, double overhead_s, double arrivals_per_s)
    : overhead_s_(overhead_s),
      pressure_(options.forecast_weight * arrivals_per_s),
      elapsed_s_(overhead_s) {}

double CutRule::Allow(double s, int32_t prompts_left) const {
  const double gain = overhead_s_ * prompts_left;
  if (completing_ * s + pressure_ * (elapsed_s_ + s / 2) * s <= gain) return s;
  const double most = gain / std::max(completing_ + pressure_ * elapsed_s_, 1e-9);
  return most < overhead_s_ ? 0 : std::min(most, s);
}

void CutRule::Take(double s, bool completes) {
  elapsed_s_ += s;
  completing_ += completes ? 1 : 0;
}

}  // namespace remontoir
