// Which layers may be attended to sparsely: one rule for the engine, evaluations and benches.
#pragma once

#include <cstdint>

#include "backend/attention_batch.h"

namespace remontoir {

// Layers with wider keys stay exact: in a model with keys of 256 values half of the far blocks were
// read, and yet predictions were off by more than the mode may cost (docs/attention.md).
inline constexpr int32_t kSparseKeyWidthMax = 128;

// What the rule asks of a layer.
struct LayerTraits {
  int32_t key_width = 0;
  int32_t window = 0;        // 0: none
  float soft_cap = 0;        // 0: none
  bool sinks = false;        // learned sink logits
  bool temperature = false;  // by position
};

// What bounds scores, adds to their sum or changes them by position has not been studied.
inline bool MayBeSparse(const LayerTraits& layer) {
  return layer.key_width <= kSparseKeyWidthMax && layer.window == 0 && layer.soft_cap == 0 &&
         !layer.sinks && !layer.temperature;
}

// Of a batch over pages.
inline LayerTraits TraitsOf(const AttentionBatch& batch) {
  return {batch.layout->layer(batch.layer).key_width, batch.window, batch.soft_cap,
          !batch.sink_logits.empty(), batch.temperature_length != 0};
}

}  // namespace remontoir
