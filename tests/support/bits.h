// Values as bits, so that NaNs and signed zeros compare as what they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace remontoir {

// Of `count` values of whole 32-bit words each.
template <class T>
std::vector<uint32_t> BitsOf(const T* values, size_t count) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  std::vector<uint32_t> bits(count * (sizeof(T) / sizeof(uint32_t)));
  if (count > 0) std::memcpy(bits.data(), values, count * sizeof(T));
  return bits;
}

template <class T>
std::vector<uint32_t> BitsOf(const std::vector<T>& values) {
  return BitsOf(values.data(), values.size());
}

}  // namespace remontoir
