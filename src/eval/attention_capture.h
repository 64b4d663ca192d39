// Queries, keys and values that layers of a model have for a text: what attention is measured on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/sparse_layers.h"
#include "base/status.h"
#include "model/model_runner.h"

namespace remontoir {

// One layer's, rotated, by position.
struct CapturedAttention {
  int32_t layer = 0;
  int32_t tokens = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t key_width = 0;
  int32_t value_width = 0;
  float scale = 1;
  float soft_cap = 0;
  int32_t window = 0;
  bool sinks = false;          // learned sink logits, which aren't captured
  bool temperature = false;    // by position, likewise
  std::vector<float> queries;  // [tokens][heads * key_width]
  std::vector<float> keys;     // [tokens][kv_heads * key_width]
  std::vector<float> values;   // [tokens][kv_heads * value_width]

  int32_t heads_per_kv() const { return heads / kv_heads; }
  LayerTraits traits() const { return {key_width, window, soft_cap, sinks, temperature}; }
};

// Feeds `tokens` as one sequence in pages 0, 1, ... of the runner's backend, which nobody else uses
// meanwhile, and keeps what `layers` see, in their order. A runner whose limits have sealed
// segments computes the rows from its engage_at on sparsely: what later layers see is then of
// sparse attention; queries, keys and values are kept all the same. kUnsupported: keys and values
// aren't kept in float32. kInvalidArgument: tokens beyond the runner's context, or a layer it
// hasn't.
Result<std::vector<CapturedAttention>> CaptureAttention(ModelRunner& runner,
                                                        std::span<const int32_t> tokens,
                                                        std::span<const int32_t> layers);

}  // namespace remontoir
