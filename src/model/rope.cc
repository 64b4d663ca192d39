// Linear and YaRN scaling of rotary frequencies.
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace remontoir {
namespace {

// Index of the frequency that turns `rotations` times within the original context.
double TurningIndex(double rotations, int32_t rotary_width, double base, double context) {
  return rotary_width * std::log(context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(base));
}

// 0 below `low` (keep the frequency), 1 above `high` (divide it by the factor), a line between.
double Ramp(double index, double low, double high) {
  return std::clamp((index - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

RopeParams MakeRope(RopePairing pairing, int32_t rotary_width, const RopeScaling& scaling,
                    std::span<const float> factors, const RopeAdjustment& adjustment) {
  const int32_t count = rotary_width / 2;
  REM_CHECK(factors.empty() || std::ssize(factors) == count, "one factor a frequency");
  const double base = scaling.base * adjustment.base_scale;
  double low = 0;
  double high = 0;
  RopeParams rope;
  rope.pairing = pairing;
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    const double context = scaling.original_context;
    low = TurningIndex(scaling.beta_fast, rotary_width, base, context);
    high = TurningIndex(scaling.beta_slow, rotary_width, base, context);
    if (scaling.yarn_range_is_whole) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, rotary_width - 1.0);
    const double stretch = scaling.score_multiplier > 0 ? 1 : 1 + 0.1 * std::log(scaling.factor);
    rope.magnitude = static_cast<float>(scaling.attention_factor * stretch);
  }
  for (int32_t i = 0; i < count; ++i) {
    double frequency = std::pow(base, -2.0 * i / rotary_width);
    const double scaled = frequency / scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency = scaled;
    if (scaling.kind == RopeScaling::Kind::kYarn) {
      const double ramp = Ramp(i, low, high);
      frequency = scaled * ramp + frequency * (1 - ramp);
    }
    if (!factors.empty()) frequency /= factors[i];
    rope.frequencies.push_back(static_cast<float>(frequency * adjustment.freq_scale));
  }
  return rope;
}

}  // namespace remontoir
