// Arguments of the kernels of sparse attention: key-clustered moments, and chosen blocks exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace remontoir {

// --- Sealing ---

// Some keys of a segment, as rows of float32 padded with zeros to whole sixteens.
struct KeySet {
  const float* rows;  // [..][stride]
  int64_t stride;     // floats; a multiple of 16
  const uint16_t* order;
  int count;  // keys order[0] ... order[count - 1], at least one
};

// Where keys lie around their mean. Arrays have KeySet::stride floats, padding zeros.
struct PrincipalAxis {
  float* mean;
  float* axis;         // of length 1; zeros where all keys are one
  float* projections;  // [count] of a key's deviation from the mean on the axis
  float spread = 0;    // mean square of the projections
};

// --- Estimate ---

// Blocks are weighed by moments of their keys (see docs of the sparse mode). Both limits are in
// log2 units: a block's variance may add so much to its weight, and so much to what it may hide.
inline constexpr float kWeightGrowthMax = 1.5F;
inline constexpr float kErrorGrowthMax = 24.0F;
// Blocks that weigh less, relative to the row's largest score, weigh nothing.
inline constexpr float kBlockWeightMin = 1e-30F;

// For every row and block, with q = the row's query * scale * log2(e):
//   score  s = q . mean;  growth h = ln2 / 2 * ((q . axis)^2 + q^2 . rest)
//   weights = log2(block keys) + s + min(h, kWeightGrowthMax);  growths = h
struct BlockEstimate {
  const float* queries;  // [row_count][key_width], scaled
  const float* squares;  // [row_count][key_width], their squares
  int row_count;
  const std::byte* const* panels;  // [panel_count] statistics of 16 blocks each
  int panel_count;
  int key_width;
  float log2_block_keys;
  float* weights;     // [row_count][stride], written up to 16 * panel_count
  float* growths;     // likewise
  int64_t stride;     // floats
  float* weight_max;  // [row_count], written: largest weight; NaNs aside
};

// One row's weights and growths become 2^(weight - max) and
// error = 2^(weight with kErrorGrowthMax - max) * sqrt(min(1, 2 ln2 h)), the mass that the block
// may hide, in the unit of the weights. Errors are within an eighth of that.
struct BlockWeighing {
  float* weights;  // [16 * panel_count], replaced
  float* growths;  // [16 * panel_count], replaced by the errors
  int panel_count;
  float max;
};
struct BlockTotals {
  float weight_sum = 0;
  float error_sum = 0;
  float error_max = 0;
};

// The row's choice: all blocks with an error from a level on, the highest level that leaves at most
// `budget` of error, and at least chosen_min blocks (fewer where there are fewer). A level is half
// an octave; blocks of one level go in order.
struct BlockChoice {
  const float* errors;  // [16 * panel_count]
  int panel_count;
  BlockTotals totals;
  float budget;
  int chosen_min;
  int32_t* level_guess;  // where the last choice's level lay from that of its budget; kept up
  uint16_t* chosen;      // [panel_count], a bit a block: those of the choice are set, others stay
};

// One row's weights and errors of chosen blocks become zero; returns what is left.
struct BlockDrop {
  float* weights;
  float* errors;
  const uint16_t* chosen;
  int panel_count;
};

// sums[r] = sums[r] * factors[r] + sum over blocks of weights[r][block] * means[block].
struct BlockMeans {
  const float* weights;  // [row_count][stride]
  int64_t stride;
  int row_count;
  const std::byte* const* means;  // [segment_count] of [segment_blocks][mean_stride] float16
  int segment_count;
  int segment_blocks;
  int value_width;
  const float* factors;  // [row_count]
  float* sums;           // [row_count][value_width]
};

// --- Chosen blocks ---

// Sixteen keys of a sealed segment.
struct SealedPanel {
  const std::byte* keys;    // [key_width][16]
  const std::byte* values;  // [16][value_width]
};

// Rows that all see all keys of the panels; continues their softmax.
struct PanelAttention {
  const float* queries;  // [row_count][key_width], times scale * log2(e)
  int row_count;
  const SealedPanel* panels;
  int panel_count;
  int key_width;
  int value_width;
  SoftmaxState* states;  // [row_count]
  float* sums;           // [row_count][value_width]
};

}  // namespace remontoir
