// One run of 32 quantised weights as whole numbers with scales: what packing reorders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace remontoir {

// Weight i is scale[i / 16] * q[i] + minimum[i / 16]; types with one scale per 32 repeat it. Signed
// types (Q8_0, the IQ ones, MXFP4, NVFP4) have q in -128 ... 127 and no minimum, all others q in
// 0 ... 63.
struct WeightBlock {
  std::array<int8_t, 32> q;
  std::array<float, 2> scale;
  std::array<float, 2> minimum;
  // Types of 256 weights but the ternary ones: scale[i] = step * scale_steps[i], of IQ1, IQ2 and
  // IQ3_XXS the part of that which codebook_block.h says; where they store minimums, minimum[i] =
  // minimum_step * minimum_steps[i]; all exact. Steps are float16 numbers.
  float step;
  float minimum_step;
  std::array<int8_t, 2> scale_steps;
  std::array<int8_t, 2> minimum_steps;
};

// Decodes weights [32 * index, 32 * index + 32) of a row that starts at `row`. Every product of a
// block's scale with its sub-block's scale is exact in float32.
void DecodeWeightBlock(DType type, const std::byte* row, int64_t index, WeightBlock* out);

}  // namespace remontoir
