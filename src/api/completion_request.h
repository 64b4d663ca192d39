// The body of POST /v1/completions, checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error_body.h"
#include "api/generation_options.h"
#include "sampling/token_id.h"

namespace remontoir {

struct CompletionPrompt {
  bool is_tokens = false;  // says which of the two counts
  std::string text;
  std::vector<TokenId> tokens;  // not negative; the vocabulary's size is not known here
};

struct CompletionRequest {
  GenerationOptions options;              // max_tokens is always set; 0 only with echo
  std::vector<CompletionPrompt> prompts;  // at least one; prompts * n is at most kChoicesMax
  bool echo = false;
};

inline constexpr int kCompletionMaxTokensDefault = 16;

// As ParseChatRequest.
std::optional<ErrorBody> ParseCompletionRequest(std::string_view body, CompletionRequest& request);

}  // namespace remontoir
