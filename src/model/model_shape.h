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
  int32_t key_width = 0;    // of one head
  int32_t value_width = 0;  // of one head
  int32_t feed_forward_width = 0;
  int32_t experts = 0;  // 0: dense
  int32_t experts_used = 0;
  int32_t vocabulary_size = 0;
  int32_t context_trained = 0;  // positions the model was trained for
  float norm_epsilon = 0;
  bool tied_embedding = false;  // no output matrix of its own
  bool attention_bias = false;  // q, k and v have biases
  float embedding_scale = 1;
  int32_t rotary_width = 0;  // leading values of a head that turn
  RopeParams rope;
  // Sliding windows: every window_period-th layer sees all keys; 0: all layers do.
  int32_t window = 0;
  int32_t window_period = 0;
  RopeParams windowed_rope;

  bool IsWindowed(int32_t layer) const {
    return window_period > 0 && (layer + 1) % window_period != 0;
  }
};

}  // namespace remontoir
