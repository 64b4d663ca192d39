// Copies the first tokens of a KV page into another: how a shared prefix ends inside a page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_layout.h"

namespace remontoir {

// One layer's keys and values, scales included, of tokens 0 ... tokens - 1 (at most kKvPageTokens),
// all heads. Key panels are copied whole: the tokens behind the last wanted one, up to a multiple
// of 16, come along in the keys. Statistics stay. The pages don't overlap.
void CopyKvLayerTokens(const KvLayout& layout, int layer, const std::byte* from, std::byte* to,
                       int32_t tokens);

}  // namespace remontoir
