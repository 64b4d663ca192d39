// What a request says of its room for keys and values in its headers, and who may share that room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/error_body.h"
#include "http/http_message.h"
#include "kv/prefix_cache.h"

namespace remontoir {

// From the headers of one request.
struct RoomHeaders {
  bool dynamic = false;         // X-KV-Cache-Mode: dynamic
  bool bypasses_cache = false;  // Cache-Control: no-cache, also among other directives
  bool exact = false;           // X-Attention-Mode: exact
  std::string api_key = {};     // as the client sent it, checked or not; empty: none
};

// Fills `room`, or names the header that has another value than those known. `bucketed` and
// `bucketed_prealloc_v2` leave the server's strategy as it is.
std::optional<ErrorBody> ReadRoomHeaders(const HttpHeaders& headers, RoomHeaders& room);

// The first 128 bits of SHA-256 over both, each behind its length: who knows neither another's API
// key nor its salt can't find its pages, nor tell by timing whether they are there.
PrefixKey PrefixKeyOf(std::string_view api_key, std::string_view cache_salt);

}  // namespace remontoir
