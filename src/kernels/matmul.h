// Arguments of the matrix product of packed weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation_block.h"

namespace remontoir {

// out[r][c] = sum over k of in[row r][k] * weight[c][k] for `panel_count` neighbouring panels. An
// element is one running sum over k in order (block by block for quantised weights: the block's
// whole numbers exactly, its value by one fused multiply-add), so it never depends on the rows and
// columns beside it.
//
// With `row_pairs`, input rows 2r and 2r + 1 are two parts of one activation row, and the output is
// their two products' sum.
template <class Input>
struct PanelProduct {
  const std::byte* panels;  // packed (kernels/packing.h), 32-byte aligned
  int64_t panel_bytes;      // from one panel to the next
  int panel_count;
  int columns;               // outputs wanted, 1 ... 16 * panel_count: the last panel may be short
  int64_t in_width;          // k
  const Input* in;           // row i at in + i * in_stride
  int64_t in_stride;         // in elements of Input
  const int32_t* row_index;  // [rows] rows (or pairs) of `in` to read; null: 0, 1, 2, ...
  bool row_pairs = false;
  int rows;    // of the output
  float* out;  // row r of this product at out + r * out_stride
  int64_t out_stride;
  // What the caller reads after the last panel, to be asked for early; null: not known. Any
  // address.
  const std::byte* after = nullptr;
};

using FloatProduct = PanelProduct<float>;                // kF32, kF16, kBF16 panels
using QuantisedProduct = PanelProduct<ActivationBlock>;  // all other panels

}  // namespace remontoir
