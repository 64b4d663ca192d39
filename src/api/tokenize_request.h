// The bodies of POST /tokenize and POST /detokenize, checked.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_request.h"
#include "api/error_body.h"
#include "sampling/token_id.h"

namespace remontoir {

struct TokenizeRequest {
  bool is_chat = false;  // says which of the two counts
  ChatRequest chat;
  std::string prompt;
  std::string model;               // empty: the client named none
  bool add_special_tokens = true;  // to a prompt; a chat's are the template's
  bool return_token_strs = false;
};

// A token of two characters in the body can be a hundred in the reply.
inline constexpr size_t kDetokenizeTokensMax = size_t{1} << 20;

struct DetokenizeRequest {
  std::string model;
  // At most kDetokenizeTokensMax, not negative; the vocabulary's size is not known here.
  std::vector<TokenId> tokens;
};

// As ParseChatRequest.
std::optional<ErrorBody> ParseTokenizeRequest(std::string_view body, TokenizeRequest& request);
std::optional<ErrorBody> ParseDetokenizeRequest(std::string_view body, DetokenizeRequest& request);

}  // namespace remontoir
