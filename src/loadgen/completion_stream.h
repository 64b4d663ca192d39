// OpenAI's two completion endpoints as a load sees them: the request's body, and what one chunk of
// the streamed answer says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace remontoir {

enum class LoadEndpoint { kChat, kCompletions };

// Below the server's address: "/v1/chat/completions" or "/v1/completions".
std::string_view EndpointPath(LoadEndpoint endpoint);

// A streamed, greedy request that doesn't end before `output_tokens`, as JSON.
std::string CompletionBody(LoadEndpoint endpoint, std::string_view model, std::string_view prompt,
                           int32_t output_tokens);

struct StreamChunk {
  bool done = false;      // "[DONE]"
  bool has_text = false;  // a piece of the answer
  std::string error;      // the message of an error that stands in for the answer's rest
  int64_t prompt_tokens = -1;
  int64_t output_tokens = -1;  // of the usage, where the chunk has one
};

// The data of one event. An error when it isn't JSON, or not an object.
Result<StreamChunk> ReadChunk(std::string_view data);

// The message of an error's body, or the body's beginning when it holds none.
std::string ErrorMessage(std::string_view body);

}  // namespace remontoir
