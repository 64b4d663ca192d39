// A model's chat template: a conversation to the text that the model was trained on.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja_runtime.h"
#include "tokenizer/jinja_value.h"
#include "tokenizer/template_span.h"

namespace remontoir {

class Vocabulary;
struct JinjaTemplate;

// What a request brings. Everything from a request must be JinjaValue::Content text.
struct ChatInputs {
  JinjaValue messages;  // a list of maps
  JinjaValue tools;     // a list of maps, or none
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::vector<std::pair<std::string, JinjaValue>> extra;  // enable_thinking, documents, ...
  std::tm now = {};                                       // the local time that strftime_now() sees
};

// For models whose file has no template.
extern const std::string_view kFallbackChatTemplate;

bool HasChatTemplate(const Vocabulary& vocabulary);

// Immutable; Render may run in several threads at once.
class ChatTemplate {
 public:
  // Errors name the template's line.
  static Result<ChatTemplate> Compile(std::string_view source);
  // The vocabulary's template, or the fallback.
  static Result<ChatTemplate> For(const Vocabulary& vocabulary);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // InvalidArgument with the message of the template's raise_exception(), or with the line at which
  // the template can't deal with the inputs; ResourceExhausted when a limit is met.
  Result<std::vector<TemplateSpan>> Render(const ChatInputs& inputs,
                                           const JinjaLimits& limits = {}) const;

 private:
  explicit ChatTemplate(JinjaTemplate parsed);

  std::unique_ptr<const JinjaTemplate> parsed_;
};

}  // namespace remontoir
