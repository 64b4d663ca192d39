// What headers wish of a request's room, and who shares pages with whom.
#include "server/request_room.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace remontoir {
namespace {

TEST(ReadRoomHeaders, KnowsEverySpelling) {
  const struct {
    HttpHeaders headers;
    bool dynamic = false;
    bool bypasses_cache = false;
    const char* api_key = "";
  } kCases[] = {
      {{}},
      {{{"X-KV-Cache-Mode", "dynamic"}}, true},
      {{{"x-kv-cache-mode", "Dynamic"}}, true},
      {{{"X-KV-Cache-Mode", "bucketed"}}},
      {{{"X-KV-Cache-Mode", "BUCKETED_PREALLOC_V2"}}},
      {{{"X-KV-Cache-Mode", "bucketed"}, {"X-KV-Cache-Mode", "dynamic"}}, true},
      {{{"Cache-Control", "no-cache"}}, false, true},
      {{{"cache-control", "NO-CACHE"}}, false, true},
      {{{"Cache-Control", "max-age=0, no-cache"}}, false, true},
      {{{"Cache-Control", "no-cache,no-store"}}, false, true},
      {{{"Cache-Control", ",\tno-cache ,"}}, false, true},
      {{{"Cache-Control", "max-age=0"}, {"Cache-Control", "no-cache"}}, false, true},
      {{{"Cache-Control", "no-cache"}, {"Cache-Control", "max-age=0"}}, false, true},
      {{{"Cache-Control", "no-cache-at-all"}}},
      {{{"Cache-Control", "x-no-cache"}}},
      {{{"Cache-Control", ""}}},
      {{{"Pragma", "no-cache"}}},
      {{{"Authorization", "Bearer sk-one"}}, false, false, "sk-one"},
      {{{"authorization", "bearer  sk-one "}}, false, false, "sk-one"},
      {{{"Authorization", "Basic abc"}}},
  };
  for (const auto& test : kCases) {
    std::string shown;
    for (const auto& [name, value] : test.headers) shown += name + ": " + value + "\n";
    SCOPED_TRACE(shown);
    RoomHeaders room;
    EXPECT_FALSE(ReadRoomHeaders(test.headers, room).has_value());
    EXPECT_EQ(room.dynamic, test.dynamic);
    EXPECT_EQ(room.bypasses_cache, test.bypasses_cache);
    EXPECT_EQ(room.api_key, test.api_key);
  }
}

TEST(ReadRoomHeaders, RefuseAnyOtherModeByName) {
  for (const char* mode : {"", "static", "dynamic, bucketed", "dynamic;q=1", "bucketed_v3"}) {
    RoomHeaders room;
    const auto error = ReadRoomHeaders({{"X-KV-Cache-Mode", mode}}, room);
    ASSERT_TRUE(error.has_value()) << mode;
    EXPECT_EQ(error->http_status, 400);
    EXPECT_EQ(error->param, "X-KV-Cache-Mode");
  }
}

TEST(PrefixKeyOf, DiffersWhereKeyOrSaltDoes) {
  const std::array<std::pair<std::string, std::string>, 9> kTenants = {{
      {"", ""},
      {"a", ""},
      {"", "a"},
      {"a", "b"},
      {"b", "a"},
      {"ab", ""},
      {"", "ab"},
      {std::string("a\0", 2), "b"},
      {"a", std::string("\0b", 2)},
  }};
  for (const auto& one : kTenants) {
    for (const auto& other : kTenants) {
      EXPECT_EQ(PrefixKeyOf(one.first, one.second) == PrefixKeyOf(other.first, other.second),
                &one == &other)
          << one.first << '/' << one.second << " and " << other.first << '/' << other.second;
    }
  }
}

// hashlib.sha256(struct.pack("<Q", 6) + b"sk-one" + struct.pack("<Q", 6) + b"team 7")
TEST(PrefixKeyOf, IsSha256OfBothBehindTheirLengths) {
  const PrefixKey key = PrefixKeyOf("sk-one", "team 7");
  EXPECT_EQ(key.low, 0xcb51bf6916273845u);
  EXPECT_EQ(key.high, 0xc92bfdd0f4f12a4fu);
}

}  // namespace
}  // namespace remontoir
