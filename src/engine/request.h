// What is asked of the engine, in tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling_params.h"

namespace remontoir {

enum class RequestKind : uint8_t {
  kGenerate,  // tokens after the prompt
  kScore,     // logprobs of the prompt's own tokens, then max_tokens more (may be 0)
};

inline constexpr int kTopLogprobsMax = 20;

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
};

}  // namespace remontoir
