// A model's hyperparameters in the project's words, whatever its file called them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/program.h"

namespace remontoir {

// Attention whose pages hold a latent: from it each head's own matrices make its key, but for the
// rotated part that all heads share, and its value. Those matrices are applied to queries and
// results instead, so that all heads read the latent and the rotated part as one KV head's key, and
// the latent again as its value: a key of rank + rotary width and a value of rank. That is some
// thirty times less than each head's own, though twice the latent, since keys and values lie in
// different orders (KvLayout); attention multiplies three to four times as much.
struct LatentAttention {
  int32_t rank = 0;         // values of the latent; 0: the model has none
  int32_t query_rank = 0;   // of the latent that queries are made from; 0: they are made directly
  int32_t key_width = 0;    // of a head's own key: values from the latent, then the rotated ones
  int32_t value_width = 0;  // of a head's own value
  bool fused_up = false;    // the file has kKeyValueUp
};

struct ModelShape {
  std::string architecture;  // as the file names it
  int32_t layers = 0;
  int32_t width = 0;  // residual stream
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t key_width = 0;           // of one head
  int32_t value_width = 0;         // of one head
  LatentAttention latent;          // with it kv_heads, key_width and value_width are the pages'
  int32_t feed_forward_width = 0;  // of dense blocks
  int32_t experts = 0;             // 0: dense
  int32_t experts_used = 0;
  int32_t expert_width = 0;         // feed-forward width of one expert
  int32_t shared_expert_width = 0;  // of the expert that every token goes to; 0: none
  bool renormalise_gates = true;    // chosen experts' weights sum to 1
  float gate_scale = 1;             // multiplies them in the end
  RouterScore router_score = RouterScore::kSoftmax;
  float router_soft_cap = 0;  // of the router's logits; 0: none
  int32_t expert_groups = 1;
  int32_t expert_groups_used = 1;    // groups that a token's experts come from
  int32_t leading_dense_layers = 0;  // layers before the first one with experts
  bool dense_beside_experts = false;
  int32_t vocabulary_size = 0;
  int32_t context_trained = 0;  // positions the model was trained for
  float norm_epsilon = 0;
  bool tied_embedding = false;  // no output matrix of its own
  float embedding_scale = 1;
  float attention_scale = 1;       // of query times key
  float attention_soft_cap = 0;    // of scaled scores; 0: none
  int32_t temperature_length = 0;  // of attention (AttentionOp has its rule); 0: none
  float logit_scale = 1;
  float logit_soft_cap = 0;  // 0: none
  int32_t rotary_width = 0;  // values of a head that turn: leading, or behind the latent
  RopeParams rope;
  // Sliding windows: every window_period-th layer sees all keys, the others the last `window`. A
  // period of 0: all layers have the window; a window of 0: none has.
  int32_t window = 0;
  int32_t window_period = 0;
  RopeParams windowed_rope;

  bool IsWindowed(int32_t layer) const {
    return window > 0 && (window_period == 0 || (layer + 1) % window_period != 0);
  }
  // Of a head as it leaves the queries' product.
  int32_t QueryWidth() const { return latent.rank > 0 ? latent.key_width : key_width; }
  // Of a head as it enters the product after attention.
  int32_t AttendedWidth() const { return latent.rank > 0 ? latent.value_width : value_width; }
  // Which feed-forward blocks a layer has.
  bool HasExperts(int32_t layer) const { return experts > 0 && layer >= leading_dense_layers; }
  bool HasDense(int32_t layer) const { return !HasExperts(layer) || dense_beside_experts; }
  bool HasSharedExpert(int32_t layer) const { return HasExperts(layer) && shared_expert_width > 0; }
};

}  // namespace remontoir
