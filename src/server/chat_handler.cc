// Messages through the model's chat template to tokens.
#include "server/chat_handler.h"

#include <utility>

#include "api/chat_request.h"
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

PlanOrError PlanChat(std::string_view body, const ServedModel& model, const PlanInputs& inputs) {
  ChatRequest request;
  if (auto error = ParseChatRequest(body, request)) return *std::move(error);
  GenerationPlan plan;
  if (auto error = BeginPlan(request.options, model, inputs, ReplyFormat::kChat, plan)) {
    return *std::move(error);
  }
  if (model.chat_template == nullptr) {
    return InvalidRequest("This model has no chat template: use /v1/completions");
  }
  Result<std::vector<TokenId>> tokens = EncodeMessages(request, model, inputs.created);
  // A template refuses conversations that its model can't take, in its own words.
  if (!tokens.ok()) return InvalidField("messages", "do not fit: " + tokens.status().message());
  PlannedChoice choice;
  choice.request.prompt = std::move(tokens).value();
  if (auto error = AddChoices(request.options, model, inputs, choice, "messages", plan)) {
    return *std::move(error);
  }
  return plan;
}

}  // namespace remontoir
