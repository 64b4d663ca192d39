// Boost.JSON reads the chunks; servers differ in what they leave out or set to null.
#include "loadgen/completion_stream.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

namespace remontoir {
namespace {

namespace json = boost::json;

constexpr size_t kMessageBytesMax = 300;

bool IsText(const json::object& holder, std::string_view key) {
  const json::value* text = holder.if_contains(key);
  return text != nullptr && text->is_string() && !text->get_string().empty();
}

// Of a chat's delta or a completion's choice.
bool HasText(const json::value& choice) {
  const json::object* holder = choice.if_object();
  if (holder == nullptr) return false;
  if (IsText(*holder, "text")) return true;
  const json::value* delta = holder->if_contains("delta");
  const json::object* piece = delta == nullptr ? nullptr : delta->if_object();
  return piece != nullptr && (IsText(*piece, "content") || IsText(*piece, "reasoning_content"));
}

int64_t CountOf(const json::object& usage, std::string_view key) {
  const json::value* count = usage.if_contains(key);
  return count != nullptr && count->is_int64() ? count->get_int64() : -1;
}

std::string MessageOf(const json::value& error) {
  if (const json::object* holder = error.if_object()) {
    const json::value* message = holder->if_contains("message");
    if (message != nullptr && message->is_string()) return std::string(message->get_string());
  }
  return json::serialize(error);
}

}  // namespace

std::string_view EndpointPath(LoadEndpoint endpoint) {
  return endpoint == LoadEndpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
}

std::string CompletionBody(LoadEndpoint endpoint, std::string_view model, std::string_view prompt,
                           int32_t output_tokens) {
  json::object body;
  body["model"] = model;
  if (endpoint == LoadEndpoint::kChat) {
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", prompt}}};
  } else {
    body["prompt"] = prompt;
  }
  body["max_tokens"] = output_tokens;
  body["temperature"] = 0;
  body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}};
  return json::serialize(body);
}

Result<StreamChunk> ReadChunk(std::string_view data) {
  StreamChunk chunk;
  if (data == "[DONE]") {
    chunk.done = true;
    return chunk;
  }
  boost::system::error_code error;
  const json::value value = json::parse(data, error);
  const json::object* holder = error ? nullptr : value.if_object();
  if (holder == nullptr) return InvalidArgument("a chunk of the stream is no JSON object");
  if (const json::value* failure = holder->if_contains("error"); failure && !failure->is_null()) {
    chunk.error = MessageOf(*failure);
  }
  if (const json::value* choices = holder->if_contains("choices"); choices && choices->is_array()) {
    for (const json::value& choice : choices->get_array()) chunk.has_text |= HasText(choice);
  }
  if (const json::value* usage = holder->if_contains("usage"); usage && usage->is_object()) {
    chunk.prompt_tokens = CountOf(usage->get_object(), "prompt_tokens");
    chunk.output_tokens = CountOf(usage->get_object(), "completion_tokens");
  }
  return chunk;
}

std::string ErrorMessage(std::string_view body) {
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  const json::object* holder = error ? nullptr : value.if_object();
  const json::value* failure = holder == nullptr ? nullptr : holder->if_contains("error");
  std::string message = failure == nullptr ? std::string(body) : MessageOf(*failure);
  if (message.size() > kMessageBytesMax) message.resize(kMessageBytesMax);
  return message;
}

}  // namespace remontoir
