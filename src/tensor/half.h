// Half precision and bfloat16 to and from float, bit for bit as the processor converts (F16C).
#pragma once

#include <bit>
#include <cstdint>

namespace remontoir {

// Exact for every finite value; a signalling NaN becomes a quiet one with the same payload.
constexpr float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    const uint32_t quiet = magnitude > 0x7c00u ? 0x0040'0000u : 0u;
    return std::bit_cast<float>(sign | 0x7f80'0000u | (magnitude << 13) | quiet);
  }
  if (magnitude < 0x0400u) {  // zero or subnormal: magnitude * 2^-24, exact in float
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  return std::bit_cast<float>(sign | ((magnitude << 13) + kRebias));
}

// Rounds to nearest, ties to even; past the largest half it becomes infinity, NaN stays a quiet
// NaN.
constexpr uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fff'ffffu;
  if (magnitude > 0x7f80'0000u) {  // NaN: keep the payload's upper bits
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x03ffu));
  }
  if (magnitude >= 0x4780'0000u) return sign | 0x7c00u;  // 65536 and above
  if (magnitude < 0x3880'0000u) {                        // below 2^-14: a subnormal half or zero
    // Adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits, rounded to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f00'0000u));
  }
  // Ties to even on the 13 bits that go; a carry moves into the exponent, and on to infinity.
  const uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  return static_cast<uint16_t>(sign | ((rounded - kRebias) >> 13));
}

// A bfloat16 is the upper half of a float: exact, NaN payloads included.
constexpr float Bf16ToFloat(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

// Rounds to nearest, ties to even; NaN stays a quiet NaN.
constexpr uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace remontoir
