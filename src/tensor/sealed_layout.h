// The sealed copy of 1,024 keys that the sparse mode reads: similar keys side by side, with what is
// known of each block of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/kv_layout.h"

namespace remontoir {

// A sequence's keys in the sparse mode: [0, kAnchorKeys) always exact, then segments of
// kSegmentKeys, then the local keys, always exact, at least kLocalKeysMin of them.
inline constexpr int kAnchorKeys = 64;
inline constexpr int kSegmentKeys = 1024;
inline constexpr int kSegmentPages = kSegmentKeys / kKvPageTokens;
static_assert(kAnchorKeys % kKvPageTokens == 0 && kSegmentKeys % kKvPageTokens == 0,
              "a segment is whole pages");
inline constexpr int kLocalKeysMin = 128;
// Positions from which rows are sparse: by default, and as early as it can pay.
inline constexpr int32_t kEngageAtAuto = 16384;
inline constexpr int32_t kEngageAtCustomSparse = kAnchorKeys + 4 * kSegmentKeys + kLocalKeysMin;
// Blocks stand in panels of so many, so that one load serves a statistic of 16 blocks.
inline constexpr int kPanelBlocks = 16;

// One past the last key of a segment.
inline constexpr int32_t SegmentEnd(int32_t segment) {
  return kAnchorKeys + kSegmentKeys * (segment + 1);
}
// Segments that rows of the group of 8 around `position` know by their blocks: those that end at
// least kLocalKeysMin keys before the group.
inline constexpr int32_t FarSegments(int32_t position) {
  const int32_t far_keys = position / 8 * 8 - kLocalKeysMin - kAnchorKeys;
  return far_keys < kSegmentKeys ? 0 : far_keys / kSegmentKeys;
}

// One KV head of one segment.
struct SealedShape {
  int32_t key_width = 0;
  int32_t value_width = 0;
  DType type = DType::kF16;  // of keys and values: kF32, kF16 or kBF16
  int32_t block_keys = 16;   // 16, 32 or 64; for tests also 1

  int32_t blocks() const { return kSegmentKeys / block_keys; }
  int32_t panels() const { return blocks() / kPanelBlocks; }
  // Rows of mean values are padded with zeros to whole sixteens.
  int32_t mean_stride() const { return (value_width + 15) / 16 * 16; }
};

// Offsets in bytes from the start of a head's part of a segment; each a multiple of 64.
//   keys        [kSegmentKeys / 16][key_width][16]   panels as in a KV page, blocks side by side
//   values      [kSegmentKeys][value_width]
//   statistics  [panels]; of 16 blocks
//                 mean  [key_width][16] float16: the mean key
//                 axis  [key_width / 4][16][4] bytes: the principal axis times its deviation, a
//                       value (byte - kAxisByteZero) * scale; columns up to a whole four are zeros
//                 rest  likewise: the variance that the axis leaves over, byte * scale
//                 scales of the axis [16] and of the rest [16], float32; NaN where the block has a
//                       value that float16 couldn't hold
//   means       [blocks][mean_stride] float16: the blocks' mean values
//   order       [kSegmentKeys] uint16: whose key it is, counted from the segment's first
struct SealedOffsets {
  int64_t keys = 0;
  int64_t values = 0;
  int64_t statistics = 0;
  int64_t means = 0;
  int64_t order = 0;
  int64_t bytes = 0;
};
SealedOffsets OffsetsOf(const SealedShape& shape);

// Parts of one panel's statistics, in bytes from its start.
inline constexpr int64_t StatisticsAxisOffset(int32_t key_width) {
  return int64_t{key_width} * kPanelBlocks * 2;
}
inline constexpr int64_t StatisticsRestOffset(int32_t key_width) {
  return StatisticsAxisOffset(key_width) + int64_t{(key_width + 3) / 4} * 4 * kPanelBlocks;
}
inline constexpr int64_t StatisticsScalesOffset(int32_t key_width) {
  return StatisticsRestOffset(key_width) + int64_t{(key_width + 3) / 4} * 4 * kPanelBlocks;
}
inline constexpr int64_t StatisticsPanelBytes(int32_t key_width) {
  return StatisticsScalesOffset(key_width) + int64_t{2} * kPanelBlocks * 4;
}
// Statistics are bytes of seven bits, so that instruction sets whose sums of two products have
// sixteen bits add them without overflow.
inline constexpr int kAxisByteZero = 64;
inline constexpr int kAxisByteMax = 63;  // in magnitude, from kAxisByteZero
inline constexpr int kRestByteMax = 127;

// The type in which keys and values of a KV type are sealed: q8_0 has its scales apart from the
// bytes, so that single keys can't be moved, and is copied as float16.
inline constexpr DType SealedType(DType kv_type) {
  return kv_type == DType::kQ8_0 ? DType::kF16 : kv_type;
}

enum class SealedSegmentId : int32_t {};

inline constexpr int32_t Index(SealedSegmentId segment) { return static_cast<int32_t>(segment); }

// A sealed segment holds, layer after layer and head after head, the parts above of every layer
// that is attended to sparsely.
class SealedLayout {
 public:
  SealedLayout() = default;
  // sparse[layer]: whether the layer has a part.
  SealedLayout(const KvLayout& layout, const std::vector<bool>& sparse, int32_t block_keys);

  bool has(int32_t layer) const { return layers_[static_cast<size_t>(layer)].head_bytes > 0; }
  const SealedShape& shape(int32_t layer) const {
    return layers_[static_cast<size_t>(layer)].shape;
  }
  // From the segment's start.
  int64_t head_offset(int32_t layer, int32_t head) const {
    const Layer& part = layers_[static_cast<size_t>(layer)];
    return part.offset + head * part.head_bytes;
  }
  int64_t segment_bytes() const { return segment_bytes_; }
  // Layers that have a part; seals of a segment.
  int32_t sealed_layers() const { return static_cast<int32_t>(sealed_layers_.size()); }
  // The i-th of them, and which of them a layer is.
  int32_t sealed_layer(int32_t i) const { return sealed_layers_[static_cast<size_t>(i)]; }
  int32_t seal_index(int32_t layer) const { return layers_[static_cast<size_t>(layer)].seal_index; }

 private:
  struct Layer {
    SealedShape shape;
    int32_t seal_index = 0;
    int64_t offset = 0;
    int64_t head_bytes = 0;
  };
  std::vector<Layer> layers_;
  std::vector<int32_t> sealed_layers_;
  int64_t segment_bytes_ = 0;
};

// Sealing is counted in seals: one segment in one layer. Those of a sequence are numbered segment
// by segment, and within a segment by its sealed layers.
struct SealRange {
  int32_t begin = 0;
  int32_t end = 0;

  int32_t count() const { return end - begin; }
};

// How many seals are due when a sequence has `keys` keys: the layers of a segment take turns over
// the kLocalKeysMin positions from its last key on, before it is far for anybody, so that no round
// of single tokens has to seal all of them.
inline constexpr int32_t SealsDue(int32_t keys, int32_t layers) {
  if (keys < SegmentEnd(0)) return 0;
  const int32_t ended = (keys - kAnchorKeys) / kSegmentKeys;
  const int64_t turns = keys - SegmentEnd(ended - 1) + 1;
  const int64_t newest =
      turns >= kLocalKeysMin ? layers : (turns * layers + kLocalKeysMin - 1) / kLocalKeysMin;
  return (ended - 1) * layers + static_cast<int32_t>(newest);
}

}  // namespace remontoir
