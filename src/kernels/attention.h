// Arguments of the attention kernel: query rows of one KV head against one partial of its keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tensor/kv_layout.h"

namespace remontoir {

// A query row (one position and head) and the keys that it sees: [key_begin, key_end), counted
// along the visiting list (positions in the sequence, where the list has no gaps).
struct AttentionRow {
  const float* query;  // [key_width]
  int32_t key_begin;
  int32_t key_end;
  float score_factor = 1;  // multiplies the scores, after any soft cap
};

// One page of keys and values of the KV head, which stand at keys 64 * block and on. Memory of keys
// that no row sees may hold anything: it changes no result.
struct KeyBlock {
  const std::byte* keys;    // page + KvLayout::key_offset(layer, head)
  const std::byte* values;  // page + KvLayout::value_offset(layer, head)
  int32_t block;
};

// The sixteen keys and values of a page from token `slot` on: 0, 16, 32 or 48.
struct KeyPanel {
  const std::byte* keys;  // of the page, as a KeyBlock has them
  const std::byte* values;
  int32_t slot;
};
inline constexpr int kTilePanels = kKvPageTokens / kKvPanelKeys;

// A softmax in the making: weights are 2^(score - max) with scores in log2 units. `max` is near the
// largest score so far: of a partial's keys, weights are below 2^9.
struct SoftmaxState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

struct AttentionPartial {
  const AttentionRow* rows;
  int row_count;           // any; all rows share each block's read
  const KeyBlock* blocks;  // ascending, all within one partial of kKvPartialKeys keys
  int block_count;
  // Not null: keys come in panels of any pages instead, which stand at keys 16 * panel_begin and
  // on. Four together are computed as the keys of a page are, with the same bits. Panels that no
  // row sees are not read, but for prefetching.
  const KeyPanel* panels = nullptr;
  int panel_count = 0;
  int32_t panel_begin = 0;  // a multiple of kTilePanels
  // The tile of keys and values that the caller reads next, to be asked for early: [kTilePanels],
  // of one page where `blocks` are. Null: none.
  const KeyPanel* after = nullptr;
  int key_width;
  int value_width;
  float scale;
  float soft_cap;        // 0 = off; else cap * tanh(score / cap)
  SoftmaxState* states;  // [row_count], written
  float* sums;           // [row_count][value_width], written: unnormalised weighted sums of values
};

}  // namespace remontoir
