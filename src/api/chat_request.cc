// Reading and checking a chat completion request.
#include "api/chat_request.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "api/field_reader.h"

namespace remontoir {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 5> kRoles = {"developer", "system", "user", "assistant",
                                                    "tool"};

std::string Indexed(std::string_view name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

// The text of an array of parts.
void ReadParts(FieldReader& message, const json::array& parts, std::string& content) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = Indexed("content", i);
    if (!parts[i].is_object()) return message.FailKind(name, "an object", parts[i]);
    FieldReader part(parts[i].get_object(), message.PathOf(name), message.error());
    std::string type;
    part.Read("type", type);
    if (message.failed()) return;
    if (type != "text") {
      return part.FailUnsupported("type", "must be \"text\", got \"" + type + "\"");
    }
    if (part.Find("text") == nullptr) return part.Fail("text", "is missing");
    std::string text;
    part.Read("text", text);
    if (i > 0) content += '\n';
    content += text;
  }
}

void ReadContent(FieldReader& fields, ChatMessage& message) {
  const json::value* content = fields.Find("content");
  if (content == nullptr) {
    message.has_content = false;
    if (message.role != "assistant" || message.tool_calls_json.empty()) {
      fields.Fail("content", "is missing; only an assistant message with tool_calls goes without");
    }
  } else if (content->is_string()) {
    message.content = content->get_string();
  } else if (content->is_array()) {
    ReadParts(fields, content->get_array(), message.content);
  } else {
    fields.FailKind("content", "a string or an array of text parts", *content);
  }
}

ChatMessage ReadMessage(FieldReader& fields) {
  ChatMessage message;
  if (fields.Find("role") == nullptr) fields.Fail("role", "is missing");
  fields.Read("role", message.role);
  if (!fields.failed() && std::ranges::find(kRoles, message.role) == kRoles.end()) {
    fields.Fail("role",
                "must be developer, system, user, assistant or tool, got \"" + message.role + "\"");
  }
  fields.Read("name", message.name);
  fields.ReadJson("tool_calls", true, message.tool_calls_json);
  fields.Read("tool_call_id", message.tool_call_id);
  ReadContent(fields, message);
  return message;
}

void ReadMessages(FieldReader& fields, ChatRequest& request) {
  const json::value* value = fields.Find("messages");
  if (value == nullptr) return fields.Fail("messages", "is missing");
  if (!value->is_array()) return fields.FailKind("messages", "an array", *value);
  if (value->get_array().empty()) return fields.Fail("messages", "must not be empty");
  json::array normalised = value->get_array();
  for (size_t i = 0; i < normalised.size() && !fields.failed(); ++i) {
    const std::string name = Indexed("messages", i);
    if (!normalised[i].is_object()) return fields.FailKind(name, "an object", normalised[i]);
    json::object& object = normalised[i].get_object();
    FieldReader message(object, name, fields.error());
    request.messages.push_back(ReadMessage(message));
    if (request.messages.back().has_content) object["content"] = request.messages.back().content;
  }
  request.messages_json = json::serialize(normalised);
}

void ReadTools(FieldReader& fields, ChatRequest& request) {
  fields.ReadJson("tools", true, request.tools_json);
  if (request.tools_json == "[]") request.tools_json.clear();
  const json::value* choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  const bool is_free =
      choice->is_string() && (choice->get_string() == "auto" || choice->get_string() == "none");
  if (!is_free) fields.FailUnsupported("tool_choice", "must be \"auto\" or \"none\" here");
  if (is_free && choice->get_string() == "none") request.tools_json.clear();
}

void ReadResponseFormat(FieldReader& fields) {
  const json::value* format = fields.Find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return fields.FailKind("response_format", "an object", *format);
  FieldReader reader(format->get_object(), "response_format", fields.error());
  std::string type;
  reader.Read("type", type);
  if (type != "text") reader.FailUnsupported("type", "must be \"text\", got \"" + type + "\"");
}

void ReadLogprobs(FieldReader& fields, GenerationOptions& options) {
  fields.Read("logprobs", options.want_logprobs);
  fields.ReadInt("top_logprobs", 0, kChatTopLogprobsMax, options.top_logprobs);
  if (options.top_logprobs > 0 && !options.want_logprobs) {
    fields.Fail("top_logprobs", "needs logprobs to be true");
  }
}

}  // namespace

std::optional<ErrorBody> ParseChatRequest(std::string_view body, ChatRequest& request) {
  json::value value;
  std::optional<ErrorBody> error = ParseObject(body, value);
  if (error.has_value()) return error;
  FieldReader fields(value.get_object(), "", error);
  ReadChatRequest(fields, request);
  return error;
}

void ReadChatRequest(FieldReader& fields, ChatRequest& request) {
  ReadMessages(fields, request);
  ReadGenerationOptions(fields, request.options);
  ReadMaxTokens(fields, 1, request.options);
  ReadLogprobs(fields, request.options);
  ReadTools(fields, request);
  ReadResponseFormat(fields);
  fields.ReadJson("chat_template_kwargs", false, request.chat_template_kwargs_json);
  fields.Read("add_generation_prompt", request.add_generation_prompt);
}

}  // namespace remontoir
