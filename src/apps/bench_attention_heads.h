// Parts of a captured layer: some of its heads, or two of them joined into a wider one.
#pragma once

#include <cstdint>

#include "eval/attention_capture.h"

namespace remontoir {

// Query heads [first_head, first_head + heads), which share a KV head, and that one, for the first
// `tokens`.
CapturedAttention PickHeads(const CapturedAttention& layer, int32_t first_head, int32_t heads,
                            int32_t tokens);

// One head of twice the width, whose queries, keys and values are those of `head` followed by those
// of `other`, each with its KV head's, and whose scale is that of heads of this width.
CapturedAttention JoinTwoHeads(const CapturedAttention& layer, int32_t head, int32_t other,
                               int32_t tokens);

}  // namespace remontoir
