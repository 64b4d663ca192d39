// Messages through the model's chat template to tokens.
#include "server/chat_handler.h"

#include <utility>
#include <variant>

#include "api/chat_request.h"
#include "server/prompt_tokens.h"

namespace remontoir {

PlanOrError PlanChat(std::string_view body, const ServedModel& model, const PlanInputs& inputs) {
  ChatRequest request;
  if (auto error = ParseChatRequest(body, request)) return *std::move(error);
  GenerationPlan plan;
  if (auto error = BeginPlan(request.options, model, inputs, ReplyFormat::kChat, plan)) {
    return *std::move(error);
  }
  TokensOrError tokens = EncodeChat(request, model, inputs.created);
  if (auto* error = std::get_if<ErrorBody>(&tokens)) return std::move(*error);
  PlannedChoice choice;
  choice.request.prompt = std::get<std::vector<TokenId>>(std::move(tokens));
  if (auto error = AddChoices(request.options, model, inputs, choice, "messages", plan)) {
    return *std::move(error);
  }
  return plan;
}

}  // namespace remontoir
