// A model's hyperparameters in the project's words, whatever its file called them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/program.h"

namespace remontoir {

struct ModelShape {
  std::string architecture;  // as the file names it
  int32_t layers = 0;
  int32_t width = 0;  // residual stream
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t key_width = 0;           // of one head
  int32_t value_width = 0;         // of one head
  int32_t feed_forward_width = 0;  // of dense blocks
  int32_t experts = 0;             // 0: dense
  int32_t experts_used = 0;
  int32_t expert_width = 0;         // feed-forward width of one expert
  int32_t shared_expert_width = 0;  // of the expert that every token goes to; 0: none
  bool renormalise_gates = true;    // chosen experts' weights sum to 1
  int32_t vocabulary_size = 0;
  int32_t context_trained = 0;  // positions the model was trained for
  float norm_epsilon = 0;
  bool tied_embedding = false;  // no output matrix of its own
  float embedding_scale = 1;
  float attention_scale = 1;     // of query times key
  float attention_soft_cap = 0;  // of scaled scores; 0: none
  float logit_soft_cap = 0;      // 0: none
  int32_t rotary_width = 0;      // leading values of a head that turn
  RopeParams rope;
  // Sliding windows: every window_period-th layer sees all keys, the others the last `window`. A
  // period of 0: all layers have the window; a window of 0: none has.
  int32_t window = 0;
  int32_t window_period = 0;
  RopeParams windowed_rope;

  bool IsWindowed(int32_t layer) const {
    return window > 0 && (window_period == 0 || (layer + 1) % window_period != 0);
  }
  // Which feed-forward blocks a layer has.
  bool HasExperts(int32_t /*layer*/) const { return experts > 0; }
  bool HasDense(int32_t layer) const { return !HasExperts(layer); }
  bool HasSharedExpert(int32_t layer) const { return HasExperts(layer) && shared_expert_width > 0; }
};

}  // namespace remontoir
