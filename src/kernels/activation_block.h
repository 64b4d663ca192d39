// Activations in 8 bits: what quantised weights are multiplied with.
#pragma once

#include <cstdint>

namespace remontoir {

inline constexpr int kActivationBlock = 32;  // values of a row that share one scale

// value[i] = scale * q[i], q in -127 ... 127. The sums are whole numbers, exact in float32: a
// weight block with a constant part meets only them.
struct ActivationBlock {
  float scale;
  float sum;       // of q[0 ... 31]
  float sum_low;   // of q[0 ... 15]
  float sum_high;  // of q[16 ... 31]
  int8_t q[kActivationBlock];
};
static_assert(sizeof(ActivationBlock) == 48);

}  // namespace remontoir
