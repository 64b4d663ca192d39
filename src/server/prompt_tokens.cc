// Text and messages to tokens.
#include "server/prompt_tokens.h"

#include <string>
#include <utility>

#include "server/template_inputs.h"
#include "tokenizer/chat_template.h"

namespace remontoir {
namespace {

Result<std::vector<TokenId>> EncodeMessages(const ChatRequest& request, const ServedModel& model,
                                            int64_t unix_seconds) {
  const Tokenizer& tokenizer = *model.tokenizer;
  REM_ASSIGN_OR_RETURN(const ChatInputs chat,
                       MakeChatInputs(request, tokenizer.vocabulary(), unix_seconds));
  REM_ASSIGN_OR_RETURN(const std::vector<TemplateSpan> spans, model.chat_template->Render(chat));
  return tokenizer.EncodeChat(spans, model.trust_content_specials);
}

}  // namespace

TokensOrError EncodeChat(const ChatRequest& request, const ServedModel& model,
                         int64_t unix_seconds) {
  if (model.chat_template == nullptr) {
    return InvalidRequest("This model has no chat template: use /v1/completions");
  }
  Result<std::vector<TokenId>> tokens = EncodeMessages(request, model, unix_seconds);
  // A template refuses conversations that its model can't take, in its own words.
  if (!tokens.ok()) return InvalidField("messages", "do not fit: " + tokens.status().message());
  return std::move(tokens).value();
}

bool AddsBos(const Tokenizer& tokenizer) {
  return tokenizer.vocabulary().add_bos() && tokenizer.bos().has_value();
}

std::vector<TokenId> EncodePrompt(std::string_view text, const Tokenizer& tokenizer,
                                  bool add_special_tokens) {
  std::vector<TokenId> tokens = tokenizer.Encode(text, SpecialTokens::kParse);
  if (add_special_tokens && AddsBos(tokenizer)) tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

std::optional<ErrorBody> CheckTokens(const std::vector<TokenId>& tokens, const ServedModel& model,
                                     std::string_view param) {
  for (const TokenId token : tokens) {
    if (!model.tokenizer->Contains(token) || Index(token) >= model.engine->vocabulary_size()) {
      return InvalidField(
          param, "has token " + std::to_string(Index(token)) + ", which the vocabulary lacks");
    }
  }
  return std::nullopt;
}

}  // namespace remontoir
