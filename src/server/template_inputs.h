// JSON of a request as values of a chat template.
#pragma once

#include <string_view>

#include "api/chat_request.h"
#include "base/status.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/vocabulary.h"

namespace remontoir {

// Everything in it counts as content: no special token in it is one. `unix_seconds` is the time
// that the template sees, in this machine's zone.
Result<ChatInputs> MakeChatInputs(const ChatRequest& request, const Vocabulary& vocabulary,
                                  int64_t unix_seconds);

}  // namespace remontoir
