// What a reply's headers say of the room for keys and values.
#pragma once

#include <span>

#include "engine/engine.h"
#include "http/http_message.h"

namespace remontoir {

// Of a choice that the engine has begun.
struct ChoiceRoom {
  RoomFacts room;
  bool used_cache = false;  // some of its prompt was in the prefix cache
};

// "bucketed_prealloc_v2" or "dynamic".
const char* KvStrategyName(bool dynamic);

// X-KV-Cache-Strategy, X-Flash-Attn-Mode and, unless its room is dynamic, X-KV-Bucket of the first
// choice; X-KV-Init-Us of the choice that took longest; X-Cache: HIT when any choice used the
// cache. At least one choice.
HttpHeaders RoomReplyHeaders(std::span<const ChoiceRoom> choices);

}  // namespace remontoir
