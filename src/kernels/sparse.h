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

// A panel's statistics from those of its blocks, as tensor/sealed_layout.h has them.
struct StatisticsPanel {
  const float* columns;  // [16][3][stride]: of each block the mean, the scaled axis and the rest
  int64_t stride;        // floats; a multiple of 16
  int key_width;
  std::byte* out;  // [StatisticsPanelBytes(key_width)]
};

// --- Estimate ---

// Blocks are weighed by moments of their keys (see docs of the sparse mode). Both limits are in
// log2 units: a block's variance may add so much to its weight, and so much to what it may hide.
// The second one bounds how far a single key can stand out of a block of similar ones and yet make
// the row read the block: heads that copy have keys 37 above their block's mean.
inline constexpr float kWeightGrowthMax = 1.5F;
inline constexpr float kErrorGrowthMax = 32.0F;
// Blocks that weigh less, relative to the row's largest score, weigh nothing.
inline constexpr float kBlockWeightMin = 1e-30F;

// A row's query * scale * log2(e), and as bytes: value = byte * scale, of the query and of its
// squares. NaN scales where the query isn't finite.
struct QueryBytes {
  float scale;
  float square_scale;
  int32_t zero;  // what kAxisByteZero adds to the product of the bytes with those of an axis
};
struct QueryScaling {
  const float* query;  // [key_width]
  int key_width;
  float factor;
  float* scaled;   // [key_width]
  int8_t* bytes;   // [2][QueryByteStride(key_width)]: of the query, of its squares
  QueryBytes* of;  // of the bytes
};
inline constexpr int64_t QueryByteStride(int key_width) {
  return (int64_t{key_width} + 15) / 16 * 16;
}

// For every row and block, with q = the row's query * scale * log2(e):
//   score  s = q . mean;  growth h = ln2 / 2 * ((q . axis)^2 + q^2 . rest)
//   weights = log2(block keys) + s + min(h, kWeightGrowthMax);  growths = h
struct BlockEstimate {
  const float* queries;      // [row_count][key_width], scaled
  const int8_t* bytes;       // [row_count][2][QueryByteStride(key_width)]
  const QueryBytes* scales;  // [row_count] of the bytes
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
  int chosen_min;  // up to 32
};
struct BlockTotals {
  float weight_sum = 0;
  float error_sum = 0;
  float error_max = 0;
  // At least chosen_min blocks, and seldom more, have an error from here on: all of the largest.
  // Above 0, so that blocks that hide nothing have less.
  float error_floor = 0;
};

// What rows that share a list say together: joined = sum over rows of errors * factors. Blocks with
// an error from the row's floor on are chosen, and count as zeros.
struct ErrorJoin {
  const float* errors;  // [row_count][stride]
  int64_t stride;
  int row_count;
  int panel_count;
  const float* factors;  // [row_count]
  const float* floors;   // [row_count]
  float* joined;         // [16 * panel_count], written
  uint16_t* chosen;      // [panel_count], written, a bit a block
};

// Chooses all blocks with an error from a level on, the highest level that leaves at most `budget`
// of error. A level is an eighth of an octave.
struct BlockChoice {
  const float* errors;  // [16 * panel_count]
  int panel_count;
  float error_sum;
  float error_max;
  float budget;
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
