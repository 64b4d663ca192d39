// Offsets of a head's part of a sealed segment.
#include "tensor/sealed_layout.h"

#include "base/check.h"

namespace remontoir {

SealedOffsets OffsetsOf(const SealedShape& shape) {
  REM_CHECK(shape.key_width > 0 && shape.value_width > 0, "a head has keys and values");
  REM_CHECK(shape.block_keys > 0 && kSegmentKeys % (shape.block_keys * kPanelBlocks) == 0,
            "a segment is whole panels of blocks");
  SealedOffsets offsets;
  const auto place = [&offsets](int64_t bytes) {
    const int64_t begin = offsets.bytes;
    offsets.bytes += (bytes + 63) / 64 * 64;
    return begin;
  };
  offsets.keys = place(kSegmentKeys * RowBytes(shape.type, shape.key_width));
  offsets.values = place(kSegmentKeys * RowBytes(shape.type, shape.value_width));
  offsets.statistics = place(shape.panels() * StatisticsPanelBytes(shape.key_width));
  offsets.means = place(int64_t{shape.blocks()} * shape.mean_stride() * 2);
  offsets.order = place(int64_t{kSegmentKeys} * 2);
  return offsets;
}

SealedLayout::SealedLayout(const KvLayout& layout, const std::vector<bool>& sparse,
                           int32_t block_keys) {
  REM_CHECK(sparse.size() == static_cast<size_t>(layout.layer_count()), "a word for each layer");
  for (int32_t i = 0; i < layout.layer_count(); ++i) {
    Layer layer;
    layer.offset = segment_bytes_;
    if (sparse[static_cast<size_t>(i)]) {
      const KvLayerShape& kv = layout.layer(i);
      layer.shape = {kv.key_width, kv.value_width, SealedType(kv.type), block_keys};
      layer.head_bytes = OffsetsOf(layer.shape).bytes;
      segment_bytes_ += layer.head_bytes * kv.kv_heads;
      layer.seal_index = sealed_layers();
      sealed_layers_.push_back(i);
    }
    layers_.push_back(layer);
  }
}

}  // namespace remontoir
