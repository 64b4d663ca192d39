// What the engine tells about a sequence, token by token.
#pragma once

#include <array>
#include <cstdint>

#include "engine/request.h"
#include "sampling/token_id.h"

namespace remontoir {

enum class FinishReason : uint8_t {
  kNone,       // more to come
  kStop,       // a stop token was drawn (it is the event's token)
  kLength,     // max_tokens, the context or the KV room is used up: see StopDetail
  kCancelled,  // Cancel was called, or the engine shut down
};

enum class StopDetail : uint8_t { kNone, kMaxTokens, kContext, kKvRoom };

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0;
};

struct TokenEvent {
  // kNoToken in an event that only ends the sequence.
  TokenId token = kNoToken;
  bool is_prompt = false;    // a scored prompt token (kScore), not a generated one
  bool has_logprob = false;  // false for the first prompt token
  float logprob = 0;         // natural log, of the model's distribution before sampling params
  uint8_t top_count = 0;
  std::array<TokenLogprob, kTopLogprobsMax> top = {};  // best first
  FinishReason finish = FinishReason::kNone;
  StopDetail detail = StopDetail::kNone;
};

}  // namespace remontoir
