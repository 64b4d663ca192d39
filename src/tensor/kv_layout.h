// Where a token's keys and values lie inside a KV page.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace remontoir {

inline constexpr int kKvPageTokens = 64;  // tokens of one sequence in a page, in every layer
inline constexpr int kKvPanelKeys = 16;   // keys in a panel: [key_width][16], so 16 scores a step
inline constexpr int kKvPartialKeys = 1024;  // keys of one softmax partial, at absolute positions

enum class KvPageId : int32_t {};

inline constexpr int32_t Index(KvPageId page) { return static_cast<int32_t>(page); }

struct KvLayerShape {
  int32_t kv_heads = 0;
  int32_t key_width = 0;         // values in one head's key
  int32_t value_width = 0;       // values in one head's value
  DType type = DType::kF16;      // kF16, kBF16 or kF32
  int32_t statistics_bytes = 0;  // a page and head, for the sparse mode; 0 in exact mode
};

// A page holds, layer after layer and head after head:
//   keys   [kKvPageTokens / 16][key_width][16]   panels, so that one load serves 16 keys
//   values [kKvPageTokens][value_width]          rows, so that one load serves one key's value
// then the head's statistics. Each part starts at a multiple of 64 bytes.
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
