// Float16 values as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tensor/half.h"

namespace remontoir {

inline std::vector<std::byte> Halves(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = FloatToHalf(values[i]);
    std::memcpy(&out[2 * i], &half, 2);
  }
  return out;
}

inline float HalfAt(const std::vector<std::byte>& halves, size_t index) {
  uint16_t half;
  std::memcpy(&half, &halves[2 * index], 2);
  return HalfToFloat(half);
}

}  // namespace remontoir
