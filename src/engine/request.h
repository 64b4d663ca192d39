// What is asked of the engine, in tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/prefix_cache.h"
#include "sampling/sampling_params.h"

namespace remontoir {

enum class RequestKind : uint8_t {
  kGenerate,  // tokens after the prompt
  kScore,     // logprobs of the prompt's own tokens, then max_tokens more (may be 0)
};

inline constexpr int kTopLogprobsMax = 20;

// How a request wants its room for keys and values.
struct RoomWishes {
  bool dynamic = false;         // from the system, not from the arena
  bool bypasses_cache = false;  // nothing of it is looked up in the prefix cache or left there
  // Positions to reserve at most, beside the prompt and one more; 0: no wish. What is generated
  // beyond grows into whatever is free.
  int32_t context_hint = 0;
  PrefixKey prefix_key;  // who may share its pages: all requests with an equal key
};

struct Request {
  RequestKind kind = RequestKind::kGenerate;
  std::vector<TokenId> prompt;  // at least one token
  // Tokens to generate at most; -1: until a stop token or until room or context ends.
  int32_t max_tokens = -1;
  SamplingParams sampling;
  std::vector<TokenId> stop_tokens;  // generation ends when one is drawn
  bool ignore_eos = false;           // stop tokens don't end it
  bool want_logprobs = false;        // fill TokenEvent::logprob
  int32_t top_logprobs = 0;          // 0 ... kTopLogprobsMax alternatives a token
  RoomWishes room;

  int32_t priority = 0;  // kPriorityMin (first) ... kPriorityMax
  bool alone = false;    // shares no round with other sequences
  bool exact = false;    // no sparse attention
  // Refused when its first token is predicted to come later than so long after its arrival; 0: it
  // waits for as long as it takes.
  int64_t first_token_us_max = 0;
};

}  // namespace remontoir
