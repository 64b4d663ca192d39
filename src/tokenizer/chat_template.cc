// Compiling and rendering.
#include "tokenizer/chat_template.h"

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_interpreter.h"
#include "tokenizer/jinja_parser.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

// ChatML, with a message's text parts put together.
const std::string_view kFallbackChatTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.content is string %}{{ message.content }}"
    "{% elif message.content %}{{ message.content | map(attribute='text', default='') | join }}"
    "{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

bool HasChatTemplate(const Vocabulary& vocabulary) { return !vocabulary.chat_template().empty(); }

ChatTemplate::ChatTemplate(JinjaTemplate parsed)
    : parsed_(std::make_unique<const JinjaTemplate>(std::move(parsed))) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Compile(std::string_view source) {
  REM_ASSIGN_OR_RETURN(JinjaTemplate parsed, ParseJinja(source));
  return ChatTemplate(std::move(parsed));
}

Result<ChatTemplate> ChatTemplate::For(const Vocabulary& vocabulary) {
  return Compile(HasChatTemplate(vocabulary) ? std::string_view(vocabulary.chat_template())
                                             : kFallbackChatTemplate);
}

Result<std::vector<TemplateSpan>> ChatTemplate::Render(const ChatInputs& inputs,
                                                       const JinjaLimits& limits) const {
  JinjaRuntime runtime(limits, inputs.now);
  JinjaInterpreter interpreter(*parsed_, runtime);
  interpreter.Define("bos_token", JinjaValue::Template(inputs.bos_token));
  interpreter.Define("eos_token", JinjaValue::Template(inputs.eos_token));
  for (const auto& [name, value] : inputs.extra) interpreter.Define(name, value);
  interpreter.Define("messages", inputs.messages);
  interpreter.Define("tools", inputs.tools);
  interpreter.Define("add_generation_prompt", JinjaValue(inputs.add_generation_prompt));
  REM_ASSIGN_OR_RETURN(const SpanText text, interpreter.Render());
  return text.Spans();
}

}  // namespace remontoir
