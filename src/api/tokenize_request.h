// The bodies of POST /tokenize and POST /detokenize, checked.
#pragma once

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

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;  // not negative; the vocabulary's size is not known here
};

// As ParseChatRequest.
std::optional<ErrorBody> ParseTokenizeRequest(std::string_view body, TokenizeRequest& request);
std::optional<ErrorBody> ParseDetokenizeRequest(std::string_view body, DetokenizeRequest& request);

}  // namespace remontoir
