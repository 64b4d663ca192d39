// Tokens for routers that send like prompts to the same server.
#include "server/tokenize_handler.h"

#include <utility>
#include <vector>

#include "api/chat_request.h"
#include "api/responses.h"
#include "api/tokenize_request.h"
#include "server/prompt_tokens.h"

namespace remontoir {
namespace {

TokensOrError TokensOf(const TokenizeRequest& request, const ServedModel& model,
                       int64_t unix_seconds) {
  if (request.is_chat) return EncodeChat(request.chat, model, unix_seconds);
  return EncodePrompt(request.prompt, *model.tokenizer, request.add_special_tokens);
}

}  // namespace

JsonOrError Tokenize(std::string_view body, const ServedModel& model, int64_t unix_seconds) {
  TokenizeRequest request;
  if (auto error = ParseTokenizeRequest(body, request)) return *std::move(error);
  if (!model.names.Answers(request.model)) return ModelNotFound(request.model);
  TokensOrError outcome = TokensOf(request, model, unix_seconds);
  if (auto* error = std::get_if<ErrorBody>(&outcome)) return std::move(*error);
  const auto& tokens = std::get<std::vector<TokenId>>(outcome);
  std::vector<std::string_view> spellings;
  if (request.return_token_strs) {
    for (const TokenId token : tokens) spellings.push_back(model.tokenizer->TokenSpelling(token));
  }
  return TokensJson(tokens, model.engine->context_max(),
                    request.return_token_strs ? &spellings : nullptr);
}

JsonOrError Detokenize(std::string_view body, const ServedModel& model) {
  DetokenizeRequest request;
  if (auto error = ParseDetokenizeRequest(body, request)) return *std::move(error);
  if (!model.names.Answers(request.model)) return ModelNotFound(request.model);
  if (auto error = CheckTokens(request.tokens, model, "tokens")) return *std::move(error);
  return PromptJson(model.tokenizer->Decode(request.tokens, /*skip_special=*/false));
}

JsonOrError RenderChat(std::string_view body, const ServedModel& model, int64_t unix_seconds,
                       RenderCache& cache) {
  if (const std::string* reply = cache.Find(body, unix_seconds)) return *reply;
  ChatRequest request;
  if (auto error = ParseChatRequest(body, request)) return *std::move(error);
  const std::string& name = request.options.model;
  if (!model.names.Answers(name)) return ModelNotFound(name);
  TokensOrError outcome = EncodeChat(request, model, unix_seconds);
  if (auto* error = std::get_if<ErrorBody>(&outcome)) return std::move(*error);
  std::string reply = RenderedChatJson(name.empty() ? model.names.primary : name,
                                       std::get<std::vector<TokenId>>(outcome));
  cache.Add(body, reply, unix_seconds);
  return reply;
}

}  // namespace remontoir
