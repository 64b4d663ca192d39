// From Boost.JSON's values to the template interpreter's.
#include "server/template_inputs.h"

#include <boost/json/parse.hpp>
#include <utility>

#include "api/generation_options.h"

namespace remontoir {
namespace {

namespace json = boost::json;

std::string_view View(json::string_view text) { return {text.data(), text.size()}; }

JinjaValue FromJson(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return {};
    case json::kind::bool_: return value.get_bool();
    case json::kind::int64: return value.get_int64();
    case json::kind::uint64: return static_cast<double>(value.get_uint64());  // above int64's range
    case json::kind::double_: return value.get_double();
    case json::kind::string: return JinjaValue::Content(View(value.get_string()));
    case json::kind::array: {
      std::vector<JinjaValue> items;
      items.reserve(value.get_array().size());
      for (const json::value& item : value.get_array()) items.push_back(FromJson(item));
      return JinjaValue::List(std::move(items));
    }
    case json::kind::object: {
      JinjaMap map;
      for (const auto& entry : value.get_object()) {
        map.Append(JinjaValue::Content(View(entry.key())), FromJson(entry.value()));
      }
      return map;
    }
  }
  return {};
}

// Empty text is none.
Result<JinjaValue> FromJsonText(std::string_view text) {
  if (text.empty()) return JinjaValue();
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  boost::system::error_code error;
  const json::value value =
      json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return InvalidArgument("not valid JSON: " + error.message());
  return FromJson(value);
}

std::string SpellingOf(const Vocabulary& vocabulary, std::optional<TokenId> token) {
  return token.has_value() ? vocabulary.Spelling(*token) : std::string();
}

}  // namespace

Result<ChatInputs> MakeChatInputs(const ChatRequest& request, const Vocabulary& vocabulary,
                                  int64_t unix_seconds) {
  ChatInputs inputs;
  REM_ASSIGN_OR_RETURN(inputs.messages, FromJsonText(request.messages_json));
  REM_ASSIGN_OR_RETURN(inputs.tools, FromJsonText(request.tools_json));
  inputs.add_generation_prompt = request.add_generation_prompt;
  inputs.bos_token = SpellingOf(vocabulary, vocabulary.bos());
  inputs.eos_token = SpellingOf(vocabulary, vocabulary.eos());
  REM_ASSIGN_OR_RETURN(const JinjaValue extra, FromJsonText(request.chat_template_kwargs_json));
  if (extra.IsMap()) {
    for (const JinjaMap::Entry& entry : extra.map().entries()) {
      inputs.extra.emplace_back(entry.key.text(), entry.value);
    }
  }
  const std::time_t time = unix_seconds;
  localtime_r(&time, &inputs.now);
  return inputs;
}

}  // namespace remontoir
