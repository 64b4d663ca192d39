// Sealing: brings the keys of a segment into an order in which similar ones stand together, copies
// them so with their values, and takes the blocks' statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

// Memory for one segment in the making; one a worker.
class SealScratch {
 public:
  // For heads up to these widths. Allocates; sealing doesn't.
  void Reserve(int32_t key_width, int32_t value_width);
  int64_t bytes() const;

 private:
  friend class SegmentSealer;
  std::vector<float> rows_;         // [kSegmentKeys][widest head]
  std::vector<float> projections_;  // [kSegmentKeys]
  std::vector<float> columns_;   // of a panel's blocks: [kPanelBlocks][3][key width], and an axis
  std::vector<uint64_t> ranks_;  // [kSegmentKeys]
  std::vector<uint16_t> order_, order_before_;
};

// Where a segment's keys and values lie: the head's part in each of its pages.
struct SegmentPages {
  const std::byte* const* keys;    // [kSegmentPages]
  const std::byte* const* values;  // likewise
  DType type;                      // kF32, kF16, kBF16 or kQ8_0
};

// Writes OffsetsOf(shape).bytes at `out`: a pure function of the segment's keys and values.
// shape.type is SealedType(pages.type).
//
// The order: a set of keys is halved at the median of its projections on its principal axis (three
// power iterations from the key that is farthest from the mean; equal ones by position), its halves
// likewise, until a block of shape.block_keys is left. A block's keys stand in their old order.
void SealSegment(const KernelTable& kernels, const SealedShape& shape, const SegmentPages& pages,
                 SealScratch& scratch, std::byte* out);

}  // namespace remontoir
