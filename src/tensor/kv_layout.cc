// Offsets of KvLayout.
#include "tensor/kv_layout.h"

#include <utility>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr int64_t kPartAlignment = 64;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace

int64_t KvPartBytes(DType type, int32_t width) {
  if (type != DType::kQ8_0) return kKvPageTokens * RowBytes(type, width);
  const int64_t blocks = (width + kKvScaleBlock - 1) / kKvScaleBlock;
  return KvScalesOffset(width) + blocks * kKvPageTokens * static_cast<int64_t>(sizeof(uint16_t));
}

KvLayout::KvLayout(std::vector<KvLayerShape> layers) : layers_(std::move(layers)) {
  for (const KvLayerShape& shape : layers_) {
    REM_CHECK(shape.kv_heads > 0 && shape.key_width > 0 && shape.value_width > 0,
              "a KV layer has heads of some width");
    const int64_t keys = RoundUp(KvPartBytes(shape.type, shape.key_width));
    const int64_t values = RoundUp(KvPartBytes(shape.type, shape.value_width));
    layer_offset_.push_back(page_bytes_);
    key_bytes_.push_back(keys);
    head_bytes_.push_back(keys + values + RoundUp(shape.statistics_bytes));
    page_bytes_ += head_bytes_.back() * shape.kv_heads;
  }
}

}  // namespace remontoir
