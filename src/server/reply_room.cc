// From the engine's facts to headers.
#include "server/reply_room.h"

#include <algorithm>
#include <string>

#include "api/headers.h"
#include "base/check.h"

namespace remontoir {

const char* KvStrategyName(bool dynamic) { return dynamic ? kDynamicStrategy : kBucketedStrategy; }

HttpHeaders RoomReplyHeaders(std::span<const ChoiceRoom> choices) {
  REM_CHECK(!choices.empty(), "a reply without a choice");
  const RoomFacts& first = choices.front().room;
  int64_t init_us = 0;
  for (const ChoiceRoom& choice : choices) init_us = std::max(init_us, choice.room.init_us);
  HttpHeaders headers = {{kHeaderKvCacheStrategy, KvStrategyName(first.dynamic)}};
  if (!first.dynamic) headers.Add(kHeaderKvBucket, std::to_string(first.bucket_tokens));
  headers.Add(kHeaderKvInitUs, std::to_string(init_us));
  headers.Add(kHeaderFlashAttnMode, first.sparse ? kSparseAttention : kExactAttention);
  headers.Add(kHeaderCache, std::ranges::any_of(choices, &ChoiceRoom::used_cache) ? "HIT" : "MISS");
  return headers;
}

}  // namespace remontoir
