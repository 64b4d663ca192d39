// What headers say of one choice's room, or of several.
#include "server/reply_room.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace remontoir {
namespace {

std::string Text(const HttpHeaders& headers) {
  std::string text;
  for (const auto& [name, value] : headers) text += name + ": " + value + "; ";
  return text;
}

TEST(RoomReplyHeaders, AreTheFirstChoicesRoomTheLongestTimeAndAnyHit) {
  const RoomFacts bucketed = {.dynamic = false, .bucket_tokens = 4096, .init_us = 7};
  const RoomFacts larger = {.dynamic = false, .bucket_tokens = 8192, .init_us = 9, .sparse = true};
  const RoomFacts dynamic = {.dynamic = true, .bucket_tokens = 0, .init_us = 812};
  const struct {
    std::vector<ChoiceRoom> choices;
    const char* headers;
  } kCases[] = {
      {{{bucketed, false}},
       "X-KV-Cache-Strategy: bucketed_prealloc_v2; X-KV-Bucket: 4096; X-KV-Init-Us: 7; "
       "X-Flash-Attn-Mode: exact; X-Cache: MISS; "},
      {{{bucketed, true}},
       "X-KV-Cache-Strategy: bucketed_prealloc_v2; X-KV-Bucket: 4096; X-KV-Init-Us: 7; "
       "X-Flash-Attn-Mode: exact; X-Cache: HIT; "},
      {{{dynamic, false}},
       "X-KV-Cache-Strategy: dynamic; X-KV-Init-Us: 812; X-Flash-Attn-Mode: exact; "
       "X-Cache: MISS; "},
      {{{bucketed, false}, {larger, true}},
       "X-KV-Cache-Strategy: bucketed_prealloc_v2; X-KV-Bucket: 4096; X-KV-Init-Us: 9; "
       "X-Flash-Attn-Mode: exact; X-Cache: HIT; "},
      {{{larger, false}, {bucketed, false}},
       "X-KV-Cache-Strategy: bucketed_prealloc_v2; X-KV-Bucket: 8192; X-KV-Init-Us: 9; "
       "X-Flash-Attn-Mode: custom_sparse; X-Cache: MISS; "},
  };
  for (const auto& test : kCases) EXPECT_EQ(Text(RoomReplyHeaders(test.choices)), test.headers);
}

}  // namespace
}  // namespace remontoir
