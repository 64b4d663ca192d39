// Where a token's keys and values lie inside a KV page.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace remontoir {

inline constexpr int kKvPageTokens = 64;  // tokens of one sequence in a page, in every layer
inline constexpr int kKvPanelKeys = 16;   // keys in a panel: [key_width][16], so 16 scores a step
inline constexpr int kKvPartialKeys = 1024;  // keys of one softmax partial, at absolute positions
inline constexpr int kKvScaleBlock = 32;     // values of a token's q8_0 key or value to one scale

enum class KvPageId : int32_t {};

inline constexpr int32_t Index(KvPageId page) { return static_cast<int32_t>(page); }

// Pages begin, begin + 1, ... of this count.
struct KvPageRange {
  KvPageId begin{};
  int32_t count = 0;

  friend bool operator==(const KvPageRange&, const KvPageRange&) = default;
};

struct KvLayerShape {
  int32_t kv_heads = 0;
  int32_t key_width = 0;         // values in one head's key
  int32_t value_width = 0;       // values in one head's value
  DType type = DType::kF16;      // kF16, kBF16, kF32 or kQ8_0
  int32_t statistics_bytes = 0;  // a page and head, for the sparse mode; 0 in exact mode
};

// Bytes of one head's keys or values in a page, of any width.
int64_t KvPartBytes(DType type, int32_t width);
// Where a q8_0 part's scales begin.
inline constexpr int64_t KvScalesOffset(int32_t width) { return int64_t{kKvPageTokens} * width; }

// A page holds, layer after layer and head after head:
//   keys   [kKvPageTokens / 16][key_width][16]   panels, so that one load serves 16 keys
//   values [kKvPageTokens][value_width]          rows, so that one load serves one key's value
// then the head's statistics. Each part starts at a multiple of 64 bytes.
//
// In q8_0 the elements of keys and values are signed bytes, and behind those of a part stand
//   scales [blocks of 32][kKvPageTokens]  float16, so that one load serves 16 tokens
// where a block is 32 values of one token in a row; the last of a width that is no multiple of 32
// is short. An element stands for q * scale. The scale is the block's largest magnitude / 127,
// rounded to float16; q is the value times 1 / that rounded scale, limited to 127 in magnitude and
// rounded to the nearest whole number, ties to even. A block with a value that isn't finite, or
// whose scale float16 can't hold, has zeros and a NaN for a scale, so that attention to it says so.
class KvLayout {
 public:
  explicit KvLayout(std::vector<KvLayerShape> layers);

  int layer_count() const { return static_cast<int>(layers_.size()); }
  const KvLayerShape& layer(int layer) const { return layers_[layer]; }
  int64_t page_bytes() const { return page_bytes_; }
  int64_t token_bytes() const { return page_bytes_ / kKvPageTokens; }

  // Byte offsets from the page's start.
  int64_t key_offset(int layer, int head) const {
    return layer_offset_[layer] + head * head_bytes_[layer];
  }
  int64_t value_offset(int layer, int head) const {
    return key_offset(layer, head) + key_bytes_[layer];
  }

 private:
  std::vector<KvLayerShape> layers_;
  std::vector<int64_t> layer_offset_;
  std::vector<int64_t> head_bytes_;
  std::vector<int64_t> key_bytes_;
  int64_t page_bytes_ = 0;
};

}  // namespace remontoir
