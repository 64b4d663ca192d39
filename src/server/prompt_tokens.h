// The tokens of a request's prompt: the same for an answer and for who only asks for tokens.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "api/chat_request.h"
#include "api/error_body.h"
#include "sampling/token_id.h"
#include "server/served_model.h"

namespace remontoir {

using TokensOrError = std::variant<std::vector<TokenId>, ErrorBody>;

// Through the model's chat template, which sees `unix_seconds` as the time.
TokensOrError EncodeChat(const ChatRequest& request, const ServedModel& model,
                         int64_t unix_seconds);

// Whether the vocabulary wants a raw prompt to begin with its BOS.
bool AddsBos(const Tokenizer& tokenizer);

// Control tokens that the text spells are tokens: who writes a raw prompt writes them too.
// With add_special_tokens the BOS comes first where the vocabulary wants it.
std::vector<TokenId> EncodePrompt(std::string_view text, const Tokenizer& tokenizer,
                                  bool add_special_tokens);

// Blames `param` for a token that the model lacks.
std::optional<ErrorBody> CheckTokens(const std::vector<TokenId>& tokens, const ServedModel& model,
                                     std::string_view param);

}  // namespace remontoir
