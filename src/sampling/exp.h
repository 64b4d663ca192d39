// e^x for weights: plain arithmetic that compilers vectorise, the same bits on every machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace remontoir {

// Below it a weight counts as none: e^-87 is the smallest power that float32 holds in full
// precision.
inline constexpr float kExpUnderflow = -87;

// e^x for x <= 0 within two units in the last place; 0 below kExpUnderflow and for NaN.
// e^x = 2^n e^r with |r| <= ln(2) / 2 and e^r by its series, whose ninth term is below 2^-27.
inline float ExpOfNonPositive(float x) {
  constexpr float kToInteger = 0x1.8p23f;  // adding it rounds to an integer
  constexpr float kLn2High = 0x1.62ep-1f;  // few bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 0x1.0bfbe8p-15f;
  // As integers, negative floats are ordered by their distance from 0, NaN last.
  constexpr int32_t kFarthest = std::bit_cast<int32_t>(-kExpUnderflow);
  const int32_t distance = std::bit_cast<int32_t>(x) & 0x7fffffff;
  const float bounded = -std::bit_cast<float>(std::min<int32_t>(distance, kFarthest));
  const float n = (bounded * 0x1.715476p0f + kToInteger) - kToInteger;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const int32_t power = (static_cast<int32_t>(n) + 127) << 23;
  return e * std::bit_cast<float>(distance <= kFarthest ? power : 0);
}

}  // namespace remontoir
