// e^x for weights: plain arithmetic that compilers vectorise, the same bits on every machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace remontoir {

// Below it a weight counts as none: e^-87 is the smallest power that float32 holds in full
// precision.
inline constexpr float kExpUnderflow = -87;

// e^x for x <= 0 (NaN not allowed), within two units in the last place; 0 below kExpUnderflow.
// e^x = 2^n e^r with |r| <= ln(2) / 2 and e^r by its series, whose ninth term is below 2^-27.
inline float ExpOfNonPositive(float x) {
  constexpr float kToInteger = 0x1.8p23f;  // adding it rounds to an integer
  constexpr float kLn2High = 0x1.62ep-1f;  // few bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 0x1.0bfbe8p-15f;
  const float bounded = std::max(x, kExpUnderflow);
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
  const float power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < kExpUnderflow ? 0.0f : e * power;
}

}  // namespace remontoir
