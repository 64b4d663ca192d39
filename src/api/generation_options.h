// What chat and text completions ask for alike: how many tokens, how drawn, how delivered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sampling/sampling_params.h"

namespace remontoir {

inline constexpr int kChoicesMax = 128;  // sequences that one request may start
inline constexpr int kStopStringsMax = 4;
inline constexpr int kChatTopLogprobsMax = 20;
inline constexpr int kCompletionLogprobsMax = 5;
inline constexpr int kJsonDepthMax = 64;
inline constexpr int kCacheSaltBytesMax = 256;
inline constexpr int kPriorityFieldMax = 100;  // and as far below 0

struct GenerationOptions {
  std::string model;  // empty: the client named none
  std::optional<int32_t> max_tokens;
  SamplingParams sampling;  // its seed counts only with has_seed
  bool has_seed = false;
  int32_t n = 1;                  // 1 ... kChoicesMax
  std::vector<std::string> stop;  // at most kStopStringsMax, none empty
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool want_logprobs = false;
  int32_t top_logprobs = 0;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // the usage so far in every chunk
  std::string user;
  int32_t max_context_length = 0;   // a hint: positions that prompt and answer will take; 0: none
  std::optional<int32_t> priority;  // lower runs first
  std::string cache_salt;           // at most kCacheSaltBytesMax; who sends another shares nothing
};

}  // namespace remontoir
