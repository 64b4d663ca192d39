// What the predictor tells the scheduler: how many requests the next 100 ms bring.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace remontoir {

inline constexpr int kForecastHorizonMs = 100;
inline constexpr int kForecastClasses = 17;  // 0, 1, ..., 15, and 16 or more

struct ArrivalForecast {
  // [n] = P(N = n) for n < 16; [16] = P(N >= 16), which counts as 16 below. Sums to 1 but for
  // float's rounding. By default nobody comes: what a scheduler without a predictor uses.
  std::array<float, kForecastClasses> probability{1.0F};

  // Sum over k of min(k, free) P(k): how many arrivals are expected to find one of `free` slots.
  // 0 for free <= 0.
  float ExpectedWithin(int free) const {
    float expected = 0.0F;
    for (int k = 1; k < kForecastClasses; ++k) {
      expected += static_cast<float>(std::clamp(free, 0, k)) * probability[static_cast<size_t>(k)];
    }
    return expected;
  }

  // The smallest n with P(N <= n) >= q, q in [0, 1]; 16 where only the last class reaches q.
  int Quantile(float q) const {
    float below = 0.0F;
    for (int n = 0; n + 1 < kForecastClasses; ++n) {
      below += probability[static_cast<size_t>(n)];
      if (below >= q) return n;
    }
    return kForecastClasses - 1;
  }
};

}  // namespace remontoir
