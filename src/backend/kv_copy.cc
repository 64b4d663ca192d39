// Panels, rows and scales of a layer.
#include "backend/kv_copy.h"

#include <cstring>

#include "base/check.h"

namespace remontoir {
namespace {

// The first `element_bytes` of a part's elements, and in q8_0 the tokens' places in each block's
// line of scales.
void CopyPart(const KvLayerShape& shape, int32_t width, int64_t element_bytes, int32_t tokens,
              const std::byte* from, std::byte* to) {
  std::memcpy(to, from, static_cast<size_t>(element_bytes));
  if (shape.type != DType::kQ8_0) return;
  constexpr int64_t kLineBytes = kKvPageTokens * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t blocks = (width + kKvScaleBlock - 1) / kKvScaleBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t line = KvScalesOffset(width) + block * kLineBytes;
    std::memcpy(to + line, from + line, static_cast<size_t>(tokens) * sizeof(uint16_t));
  }
}

// Bytes of one token's elements, without scales.
int64_t TokenBytes(DType type, int32_t width) {
  return type == DType::kQ8_0 ? width : RowBytes(type, width);
}

}  // namespace

void CopyKvLayerTokens(const KvLayout& layout, int layer, const std::byte* from, std::byte* to,
                       int32_t tokens) {
  REM_CHECK(tokens >= 0 && tokens <= kKvPageTokens, "tokens of a page");
  const KvLayerShape& shape = layout.layer(layer);
  const int64_t panel_tokens = (tokens + kKvPanelKeys - 1) / kKvPanelKeys * kKvPanelKeys;
  const int64_t key_bytes = panel_tokens * TokenBytes(shape.type, shape.key_width);
  const int64_t value_bytes = tokens * TokenBytes(shape.type, shape.value_width);
  for (int head = 0; head < shape.kv_heads; ++head) {
    const int64_t keys = layout.key_offset(layer, head);
    CopyPart(shape, shape.key_width, key_bytes, tokens, from + keys, to + keys);
    const int64_t values = layout.value_offset(layer, head);
    CopyPart(shape, shape.value_width, value_bytes, tokens, from + values, to + values);
  }
}

}  // namespace remontoir
