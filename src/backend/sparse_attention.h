// Sparse attention of one row group to one KV head: far keys by the moments of their blocks, or
// exactly where a block may hide something; anchor and local keys always exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

struct SparseSettings {
  float epsilon = 0.1F;  // above 0: error that a row may leave, as a part of its weight
  int32_t chosen_blocks_min = 8;
  // A group with a row that leaves more is computed exactly. Infinity: never.
  float residual_max = std::numeric_limits<float>::infinity();
};

// Of more far blocks than this part all are taken: choosing no longer pays.
inline constexpr float kChosenPartMax = 0.6F;

// The anchor page and those of local keys: less than a segment and kLocalKeysMin before the group.
inline constexpr int kLocalBlocksMax = 2 + (kSegmentKeys + kLocalKeysMin + 8) / kKvPageTokens + 1;

// The rows of one query head at up to 8 positions, or all query heads of a KV head at one position.
// All of them know the same segments, segment_count = FarSegments(position).
struct SparseGroup {
  const AttentionRow* rows;  // key_begin 0
  int row_count;
  // The page of the anchor keys and those from the last far segment's end to the last row's key.
  const KeyBlock* local_blocks;
  int local_block_count;
  DType kv_type;                     // of those pages
  const std::byte* const* segments;  // [segment_count] the head's part of each sealed segment
  int segment_count;
  float scale;
  SoftmaxState* states;  // [row_count], written
  float* sums;           // [row_count][value_width], written: as of AttentionPartial
  float* residuals;      // [row_count], written: the error left, as a part of the row's weight
};

// What a group read of its far blocks.
struct SparseCounts {
  int32_t far_blocks = 0;
  int32_t chosen_blocks = 0;  // all of them: the group is exact but for rounding
};

// Memory for a group in flight; one a worker.
class SparseScratch {
 public:
  // For groups of `rows` (row, head) pairs of such heads. Allocates; attention doesn't.
  void Reserve(int64_t rows, const SealedShape& shape, int32_t segments_max);
  int64_t bytes() const;

 private:
  friend class SparseGroupRun;
  std::vector<float> queries_;       // [rows][key_width]
  std::vector<int8_t> query_bytes_;  // [rows][2][QueryByteStride(key_width)]
  std::vector<QueryBytes> query_scales_;
  std::vector<float> weights_, growths_;  // [rows][blocks of all segments]
  std::vector<float> joined_;             // [blocks of all segments]
  std::vector<float> weight_max_, factors_, totals_, error_factors_, error_floors_;
  std::vector<BlockTotals> left_;
  std::vector<const std::byte*> panels_, means_;
  std::vector<uint16_t> chosen_;
  std::vector<SealedPanel> key_panels_;
};

// The same bits whatever else runs beside it, and on every instruction set.
SparseCounts AttendSparse(const KernelTable& kernels, const SealedShape& shape,
                          const SparseSettings& settings, const SparseGroup& group,
                          SparseScratch& scratch);

}  // namespace remontoir
