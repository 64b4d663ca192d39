// Which replies the cache of rendered chats still has.
#include "server/render_cache.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

std::string Found(RenderCache& cache, std::string_view body, int64_t now = 0) {
  const std::string* const reply = cache.Find(body, now);
  return reply == nullptr ? "nothing" : *reply;
}

TEST(RenderCache, FindsByTheWholeBody) {
  RenderCache cache;
  EXPECT_EQ(Found(cache, "a"), "nothing");
  cache.Add("a", "1", 0);
  cache.Add("b", "2", 0);
  EXPECT_EQ(Found(cache, "a"), "1");
  EXPECT_EQ(Found(cache, "b"), "2");
  EXPECT_EQ(Found(cache, "a "), "nothing");
  cache.Add("a", "3", 0);
  EXPECT_EQ(Found(cache, "a"), "3");
}

TEST(RenderCache, DropsWhatNobodyAskedForLongest) {
  RenderCache cache({.entries_max = 2});
  cache.Add("a", "1", 0);
  cache.Add("b", "2", 0);
  EXPECT_EQ(Found(cache, "a"), "1");
  cache.Add("c", "3", 0);
  EXPECT_EQ(Found(cache, "a"), "1");
  EXPECT_EQ(Found(cache, "b"), "nothing");
  EXPECT_EQ(Found(cache, "c"), "3");
}

TEST(RenderCache, StaysWithinItsBytes) {
  RenderCache cache({.bytes_max = 10});
  cache.Add("aaaa", "1", 0);
  cache.Add("bbbb", "2", 0);
  EXPECT_EQ(Found(cache, "aaaa"), "1");
  cache.Add("c", "3", 0);
  EXPECT_EQ(Found(cache, "bbbb"), "nothing");
  EXPECT_EQ(Found(cache, "aaaa"), "1");
  EXPECT_EQ(Found(cache, "c"), "3");
  cache.Add("0123456789", "too large", 0);
  EXPECT_EQ(Found(cache, "0123456789"), "nothing");
  EXPECT_EQ(Found(cache, "aaaa"), "1");
  // As large as the cache: alone.
  cache.Add("012345678", "4", 0);
  EXPECT_EQ(Found(cache, "012345678"), "4");
  EXPECT_EQ(Found(cache, "aaaa"), "nothing");
  EXPECT_EQ(Found(cache, "c"), "nothing");
}

TEST(RenderCache, ForgetsWhatIsOld) {
  struct Case {
    int64_t now;
    const char* found;
  };
  for (const Case& c :
       {Case{100, "1"}, Case{160, "1"}, Case{161, "nothing"}, Case{99, "nothing"}}) {
    RenderCache cache({.age_max_s = 60});
    cache.Add("a", "1", 100);
    EXPECT_EQ(Found(cache, "a", c.now), c.found) << c.now;
    // Whatever was dropped left its room.
    cache.Add("a", "2", c.now);
    EXPECT_EQ(Found(cache, "a", c.now), "2") << c.now;
  }
}

}  // namespace
}  // namespace remontoir
