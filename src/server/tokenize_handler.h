// POST /tokenize, /detokenize and /v1/chat/completions/render: from the body to the reply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "api/error_body.h"
#include "server/render_cache.h"
#include "server/served_model.h"

namespace remontoir {

// The reply's JSON, or why there is none.
using JsonOrError = std::variant<std::string, ErrorBody>;

// `unix_seconds` is the time that a chat's template sees.
JsonOrError Tokenize(std::string_view body, const ServedModel& model, int64_t unix_seconds);
JsonOrError Detokenize(std::string_view body, const ServedModel& model);
JsonOrError RenderChat(std::string_view body, const ServedModel& model, int64_t unix_seconds,
                       RenderCache& cache);

}  // namespace remontoir
