// The body of POST /v1/chat/completions, checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error_body.h"
#include "api/generation_options.h"

namespace remontoir {

struct ChatMessage {
  std::string role;             // developer, system, user, assistant or tool
  std::string content;          // the text parts of an array, joined by line breaks
  bool has_content = true;      // false: null (an assistant's tool calls)
  std::string name;             // empty: none
  std::string tool_calls_json;  // empty: none
  std::string tool_call_id;     // empty: none
};

struct ChatRequest {
  GenerationOptions options;
  std::vector<ChatMessage> messages;  // at least one
  // The same messages as JSON with all fields that the client sent and `content` a string or null.
  std::string messages_json;
  std::string tools_json;                 // an array of objects; empty: none
  std::string chat_template_kwargs_json;  // an object; empty: none
  bool add_generation_prompt = true;
};

// Fills `request`, or says what is wrong with the body: the error's param is the field's path.
// Fields that are unknown here, and those that are null, count as not sent.
std::optional<ErrorBody> ParseChatRequest(std::string_view body, ChatRequest& request);

}  // namespace remontoir
