// Reading and checking a text completion request.
#include "api/completion_request.h"

#include "api/field_reader.h"

namespace remontoir {
namespace {

namespace json = boost::json;

std::string Indexed(std::string_view name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

void ReadIds(FieldReader& fields, const std::string& name, const json::array& ids,
             CompletionPrompt& prompt) {
  if (ids.empty()) return fields.Fail(name, "must not be empty");
  prompt.is_tokens = true;
  ReadTokens(fields, name, ids, prompt.tokens);
}

// A string, an array of strings, of ids, or of arrays of ids.
void ReadPrompts(FieldReader& fields, std::vector<CompletionPrompt>& prompts) {
  const json::value* value = fields.Find("prompt");
  if (value == nullptr) return fields.Fail("prompt", "is missing");
  if (value->is_string()) {
    prompts.emplace_back().text = value->get_string();
    return;
  }
  if (!value->is_array()) {
    return fields.FailKind("prompt", "a string, or an array of strings or token ids", *value);
  }
  const json::array& items = value->get_array();
  if (items.empty()) return fields.Fail("prompt", "must not be empty");
  if (items[0].is_number()) return ReadIds(fields, "prompt", items, prompts.emplace_back());
  if (items.size() > kChoicesMax) {
    return fields.Fail("prompt", "must have at most " + std::to_string(kChoicesMax) +
                                     " prompts, got " + std::to_string(items.size()));
  }
  for (size_t i = 0; i < items.size() && !fields.failed(); ++i) {
    const std::string name = Indexed("prompt", i);
    CompletionPrompt& prompt = prompts.emplace_back();
    if (items[i].is_array()) {
      ReadIds(fields, name, items[i].get_array(), prompt);
    } else if (items[i].is_string()) {
      prompt.text = items[i].get_string();
    } else {
      fields.FailKind(name, "a string or an array of token ids", items[i]);
    }
  }
}

void CheckWhatIsNotServed(FieldReader& fields, const GenerationOptions& options) {
  int32_t best_of = options.n;
  fields.ReadInt("best_of", 1, kChoicesMax, best_of);
  if (best_of != options.n) fields.FailUnsupported("best_of", "must equal n");
  std::string suffix;
  fields.Read("suffix", suffix);
  if (!suffix.empty()) fields.FailUnsupported("suffix", "must be empty: infilling isn't served");
}

}  // namespace

std::optional<ErrorBody> ParseCompletionRequest(std::string_view body, CompletionRequest& request) {
  json::value value;
  std::optional<ErrorBody> error = ParseObject(body, value);
  if (error.has_value()) return error;
  FieldReader fields(value.get_object(), "", error);
  GenerationOptions& options = request.options;
  ReadPrompts(fields, request.prompts);
  ReadGenerationOptions(fields, options);
  if (static_cast<int64_t>(request.prompts.size()) * options.n > kChoicesMax) {
    fields.Fail("n", "times the number of prompts must be at most " + std::to_string(kChoicesMax));
  }
  options.max_tokens = kCompletionMaxTokensDefault;
  ReadMaxTokens(fields, 0, options);
  fields.Read("echo", request.echo);
  if (options.max_tokens == 0 && !request.echo) {
    fields.Fail("max_tokens", "must be at least 1 without echo");
  }
  options.want_logprobs = fields.Find("logprobs") != nullptr;
  fields.ReadInt("logprobs", 0, kCompletionLogprobsMax, options.top_logprobs);
  CheckWhatIsNotServed(fields, options);
  return error;
}

}  // namespace remontoir
