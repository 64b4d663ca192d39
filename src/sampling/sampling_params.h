// How a sequence picks its tokens: plain data, checked where a request enters.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/token_id.h"

namespace remontoir {

struct LogitBias {
  TokenId token = kNoToken;
  float bias = 0;  // added to the logit, -100 ... 100
};

struct SamplingParams {
  float temperature = 1;         // 0 = greedy
  int32_t top_k = 0;             // 0 = off
  float top_p = 1;               // 1 = off
  float min_p = 0;               // 0 = off
  float frequency_penalty = 0;   // -2 ... 2, times the count of the token in the output so far
  float presence_penalty = 0;    // -2 ... 2, once the token stands in the output
  float repetition_penalty = 1;  // > 0; divides positive, multiplies negative logits of tokens seen
                                 // in prompt or output; 1 = off
  uint64_t seed = 0;             // always set: drawn by the server when the client sent none
  std::vector<LogitBias> logit_bias;  // at most kLogitBiasMax, each token once
};

inline constexpr int kLogitBiasMax = 1024;

}  // namespace remontoir
