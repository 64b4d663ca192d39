// Conversations of the chat oracles as a template's inputs.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "tokenizer/chat_template.h"

namespace remontoir {

// JSON as values whose texts are content.
inline JinjaValue ToJinja(const boost::json::value& json) {
  switch (json.kind()) {
    case boost::json::kind::null: return {};
    case boost::json::kind::bool_: return JinjaValue(json.get_bool());
    case boost::json::kind::int64: return JinjaValue(int64_t{json.get_int64()});
    case boost::json::kind::uint64: return JinjaValue(static_cast<int64_t>(json.get_uint64()));
    case boost::json::kind::double_: return JinjaValue(json.get_double());
    case boost::json::kind::string: return JinjaValue::Content(std::string_view(json.get_string()));
    case boost::json::kind::array: {
      std::vector<JinjaValue> items;
      for (const auto& item : json.get_array()) items.push_back(ToJinja(item));
      return JinjaValue::List(std::move(items));
    }
    case boost::json::kind::object: {
      JinjaMap map;
      for (const auto& [key, value] : json.get_object()) {
        map.Append(JinjaValue::Content(std::string_view(key)), ToJinja(value));
      }
      return JinjaValue(std::move(map));
    }
  }
  return {};
}

// A row {case, messages, tools?, kwargs}; the clock stands at 2025-01-02 03:04:05.
inline ChatInputs InputsOf(const boost::json::object& row) {
  ChatInputs inputs;
  inputs.messages = ToJinja(row.at("messages"));
  if (row.contains("tools")) inputs.tools = ToJinja(row.at("tools"));
  for (const auto& [name, value] : row.at("kwargs").as_object()) {
    if (name == "add_generation_prompt") {
      inputs.add_generation_prompt = value.as_bool();
    } else if (name == "bos_token") {
      inputs.bos_token = value.as_string();
    } else if (name == "eos_token") {
      inputs.eos_token = value.as_string();
    } else {
      inputs.extra.emplace_back(name, ToJinja(value));
    }
  }
  inputs.now.tm_year = 125;
  inputs.now.tm_mday = 2;
  inputs.now.tm_hour = 3;
  inputs.now.tm_min = 4;
  inputs.now.tm_sec = 5;
  inputs.now.tm_wday = 4;
  inputs.now.tm_yday = 1;
  return inputs;
}

inline std::string TextOf(const std::vector<TemplateSpan>& spans) {
  std::string text;
  for (const TemplateSpan& span : spans) text += span.text;
  return text;
}

}  // namespace remontoir
