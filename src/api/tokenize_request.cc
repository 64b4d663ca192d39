// Reading and checking what routers ask about tokens.
#include "api/tokenize_request.h"

#include "api/field_reader.h"

namespace remontoir {

namespace json = boost::json;

std::optional<ErrorBody> ParseTokenizeRequest(std::string_view body, TokenizeRequest& request) {
  json::value value;
  std::optional<ErrorBody> error = ParseObject(body, value);
  if (error.has_value()) return error;
  FieldReader fields(value.get_object(), "", error);
  fields.Read("model", request.model);
  fields.Read("add_special_tokens", request.add_special_tokens);
  fields.Read("return_token_strs", request.return_token_strs);
  request.is_chat = fields.Find("messages") != nullptr;
  if (request.is_chat) {
    if (fields.Find("prompt") != nullptr) fields.Fail("prompt", "must not come with messages");
    ReadChatRequest(fields, request.chat);
  } else if (fields.Find("prompt") == nullptr) {
    fields.Fail("prompt", "is missing, and so is messages");
  } else {
    fields.Read("prompt", request.prompt);
  }
  return error;
}

std::optional<ErrorBody> ParseDetokenizeRequest(std::string_view body, DetokenizeRequest& request) {
  json::value value;
  std::optional<ErrorBody> error = ParseObject(body, value);
  if (error.has_value()) return error;
  FieldReader fields(value.get_object(), "", error);
  fields.Read("model", request.model);
  const json::value* tokens = fields.Find("tokens");
  if (tokens == nullptr) {
    fields.Fail("tokens", "is missing");
  } else if (!tokens->is_array()) {
    fields.FailKind("tokens", "an array of token ids", *tokens);
  } else if (const size_t count = tokens->get_array().size(); count > kDetokenizeTokensMax) {
    fields.Fail("tokens", "must be at most " + std::to_string(kDetokenizeTokensMax) +
                              " tokens, got " + std::to_string(count));
  } else {
    ReadTokens(fields, "tokens", tokens->get_array(), request.tokens);
  }
  return error;
}

}  // namespace remontoir
