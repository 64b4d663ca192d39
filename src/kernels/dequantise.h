// Rows of any element type as float32: the definition that every other kernel is measured against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace remontoir {

// Writes `elements` values, a whole number of blocks, to `out`. `blocks` holds
// RowBytes(type, elements) bytes and needs no alignment.
void DequantiseRow(DType type, const std::byte* blocks, int64_t elements, float* out);

}  // namespace remontoir
