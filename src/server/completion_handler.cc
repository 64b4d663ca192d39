// Prompts as text or ids, echoed, scored or continued.
#include "server/completion_handler.h"

#include <utility>

#include "api/completion_request.h"
#include "server/prompt_tokens.h"

namespace remontoir {
namespace {

// The prompt's tokens and, with echo, how its text comes back.
std::optional<ErrorBody> ReadPrompt(CompletionPrompt& prompt, const ServedModel& model,
                                    std::string_view param, bool echo, PlannedChoice& choice) {
  const Tokenizer& tokenizer = *model.tokenizer;
  choice.options.echo = echo;
  if (prompt.is_tokens) {
    std::optional<ErrorBody> error = CheckTokens(prompt.tokens, model, param);
    if (error.has_value()) return error;
    choice.request.prompt = std::move(prompt.tokens);
    if (echo) choice.echo = tokenizer.Decode(choice.request.prompt, /*skip_special=*/false);
    return std::nullopt;
  }
  choice.request.prompt = EncodePrompt(prompt.text, tokenizer, /*add_special_tokens=*/true);
  choice.options.hide_first = AddsBos(tokenizer);
  if (echo) choice.echo = std::move(prompt.text);
  return std::nullopt;
}

}  // namespace

PlanOrError PlanCompletion(std::string_view body, const ServedModel& model,
                           const PlanInputs& inputs) {
  CompletionRequest request;
  if (auto error = ParseCompletionRequest(body, request)) return *std::move(error);
  GenerationPlan plan;
  if (auto error = BeginPlan(request.options, model, inputs, ReplyFormat::kCompletion, plan)) {
    return *std::move(error);
  }
  const bool scores =
      request.echo && (request.options.want_logprobs || request.options.max_tokens == 0);
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string param =
        request.prompts.size() == 1 ? "prompt" : "prompt[" + std::to_string(i) + "]";
    PlannedChoice choice;
    if (auto error = ReadPrompt(request.prompts[i], model, param, request.echo, choice)) {
      return *std::move(error);
    }
    if (scores) {
      // The echo comes token by token, with its logprobs.
      choice.request.kind = RequestKind::kScore;
      choice.echo.clear();
    }
    if (auto error = AddChoices(request.options, model, inputs, choice, param, plan)) {
      return *std::move(error);
    }
  }
  return plan;
}

}  // namespace remontoir
