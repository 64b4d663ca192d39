// Reads the codebook types of GGUF (IQ1, IQ2, IQ3) as whole numbers, 32 weights at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/block_layouts.h"

namespace remontoir {

// Weight i is d * factor * steps[i / 16] * q[i], with the block's half-precision d and the type's
// factor.
struct CodebookRun {
  std::array<int8_t, 32> q;
  std::array<int8_t, 2> steps;  // 1, 3, ... 31
};

// What the steps of IQ1 and IQ2, and those of IQ3_XXS, are parts of; those of IQ3_S are whole.
inline constexpr float kEighth = 0.125F;
inline constexpr float kQuarter = 0.25F;

// Run 0 ... 7 of a block.
CodebookRun DecodeCodebookRun(const BlockIQ1_S& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ1_M& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ2_XXS& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ2_XS& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ2_S& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ3_XXS& block, size_t run);
CodebookRun DecodeCodebookRun(const BlockIQ3_S& block, size_t run);

// The half-precision bits of d in an IQ1_M block, a nibble on top of each word of scales.
uint16_t IQ1_MScaleBits(const BlockIQ1_M& block);

}  // namespace remontoir
