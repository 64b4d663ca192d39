// Facts about finding published pages: what matches, how far, and for whom.
#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include "tests/unit/kv/kv_tokens.h"

namespace remontoir {
namespace {

TEST(PrefixCache, MatchesWholePagesThenATailButNeverTheWholePrompt) {
  KvPool pool(8);
  RunThrough(pool, StreamTokens(0, 200));  // three full pages and a tail of 8
  const struct {
    int32_t common;
    int32_t prompt;
    int32_t pages;
    int32_t tail;
  } cases[] = {
      {200, 200, 3, 7}, {200, 201, 3, 8},  {200, 300, 3, 8},  {192, 192, 2, 63}, {192, 193, 3, 0},
      {195, 400, 3, 3}, {128, 128, 1, 63}, {100, 128, 1, 36}, {64, 64, 0, 63},   {64, 65, 1, 0},
      {63, 300, 0, 63}, {1, 2, 0, 1},      {1, 1, 0, 0},      {0, 300, 0, 0},    {0, 0, 0, 0},
  };
  for (const auto& c : cases) {
    const auto prompt = PromptSharing(c.common, c.prompt);
    const PrefixMatch match = pool.prefix_cache().Match(kKey, prompt);
    EXPECT_EQ(match.page_count, c.pages) << c.common << " of " << c.prompt;
    EXPECT_EQ(match.tail_tokens, c.tail) << c.common << " of " << c.prompt;
    EXPECT_EQ(match.tokens(), c.pages * kKvPageTokens + c.tail);
    EXPECT_EQ(match.last_page == kNoKvPage, c.pages == 0);
    EXPECT_EQ(match.tail_source == kNoKvPage, c.tail == 0);
    EXPECT_TRUE(match.looked_up);
  }
}

TEST(PrefixCache, KeepsToTheLimitsOfAMatch) {
  KvPool pool(8);
  RunThrough(pool, StreamTokens(0, 240));  // three full pages and a tail of 48
  const struct {
    MatchLimits limits;
    int32_t common;
    int32_t tokens;
  } cases[] = {
      {{}, 239, 239},
      {{.tokens_max = 239}, 240, 239},
      {{.tokens_max = 192}, 240, 192},
      {{.tokens_max = 191}, 240, 191},
      {{.tokens_max = 1}, 240, 1},
      {{.tokens_max = 0}, 240, 0},
      {{.tokens_max = -5}, 240, 0},
      {{.tail_grain = 8}, 239, 232},
      {{.tail_grain = 8}, 232, 232},
      {{.tail_grain = 8}, 199, 192},
      {{.tail_grain = 64}, 239, 192},
      {{.tail_grain = 8, .grain_from = 238}, 239, 232},
      {{.tail_grain = 8, .grain_from = 239}, 239, 239},
      {{.tokens_max = 101, .tail_grain = 8}, 240, 96},
      {{.tail_grain = 8}, 5, 0},
  };
  for (const auto& c : cases) {
    const auto prompt = PromptSharing(c.common, 300);
    const PrefixMatch match = pool.prefix_cache().Match(kKey, prompt, c.limits);
    EXPECT_EQ(match.tokens(), c.tokens) << c.limits.tokens_max << " " << c.limits.tail_grain;
    EXPECT_EQ(match.tail_source == kNoKvPage, match.tail_tokens == 0);
  }
}

TEST(PrefixCache, ShowsPagesOnlyUnderTheirOwnKey) {
  KvPool pool(8);
  const auto tokens = StreamTokens(0, 100);
  RunThrough(pool, tokens, {1, 2});
  for (const PrefixKey key : {PrefixKey{1, 3}, PrefixKey{2, 2}, PrefixKey{2, 1}, PrefixKey{}}) {
    EXPECT_EQ(pool.prefix_cache().Match(key, tokens).tokens(), 0) << key.low << " " << key.high;
  }
  EXPECT_EQ(pool.prefix_cache().Match({1, 2}, tokens).tokens(), 99);

  // The same tokens again: pages of their own.
  RunThrough(pool, tokens, {1, 3});
  EXPECT_EQ(pool.prefix_cache().pages_published(), 4);
  EXPECT_NE(pool.prefix_cache().Match({1, 2}, tokens).last_page,
            pool.prefix_cache().Match({1, 3}, tokens).last_page);
}

// With two places in the index every second look-up meets a page that isn't its own.
TEST(PrefixCache, ComparesWhatTheHashProposes) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PrefixCache cache(1, seed);
    cache.Insert(kKey, kNoKvPage, KvPageId(0), StreamTokens(0, kKvPageTokens));
    for (int32_t stream = 1; stream < 20; ++stream) {
      EXPECT_EQ(cache.FindFull(kKey, kNoKvPage, StreamTokens(stream, kKvPageTokens)), kNoKvPage);
      EXPECT_EQ(cache.Match({1, static_cast<uint64_t>(2 + stream)}, StreamTokens(0, 65)).tokens(),
                0);
    }
    EXPECT_EQ(cache.FindFull(kKey, kNoKvPage, StreamTokens(0, kKvPageTokens)), KvPageId(0));
  }
}

TEST(PrefixCache, TellsEqualTokensUnderDifferentPagesApart) {
  KvPool pool(8);
  const auto same = StreamTokens(9, kKvPageTokens);
  const auto first = Joined({StreamTokens(1, kKvPageTokens), same});
  const auto second = Joined({StreamTokens(2, kKvPageTokens), same});
  RunThrough(pool, first);
  RunThrough(pool, second);
  EXPECT_EQ(pool.prefix_cache().pages_published(), 4);
  const auto third = Joined({StreamTokens(3, kKvPageTokens), same});
  EXPECT_EQ(pool.prefix_cache().Match(kKey, third).tokens(), 0);
}

TEST(PrefixCache, TakesTheLongestTailAmongChildren) {
  KvPool pool(8);
  RunThrough(pool, PromptSharing(70, 80, 1));   // tail: 6 tokens of stream 0
  RunThrough(pool, PromptSharing(90, 128, 2));  // a full second page: 26
  RunThrough(pool, PromptSharing(75, 100, 3));  // tail: 11
  const PrefixMatch match = pool.prefix_cache().Match(kKey, PromptSharing(110, 200, 4));
  EXPECT_EQ(match.page_count, 1);
  EXPECT_EQ(match.tail_tokens, 26);
  EXPECT_EQ(pool.prefix_cache().tokens(match.tail_source).size(), size_t{kKvPageTokens});
}

TEST(PrefixCache, ScansTheLatestUsedChildrenOnly) {
  KvPool pool(2 * kChildrenScannedMax);
  const auto sought = StreamTokens(0, 20);
  RunThrough(pool, sought);
  for (int32_t stream = 1; stream < kChildrenScannedMax; ++stream) {
    RunThrough(pool, StreamTokens(stream, 20));
  }
  EXPECT_EQ(pool.prefix_cache().Match(kKey, sought).tokens(), 19);
  RunThrough(pool, StreamTokens(kChildrenScannedMax, 20));
  EXPECT_EQ(pool.prefix_cache().Match(kKey, sought).tokens(), 0);

  // A use brings a child to the front, before one that is newer: stream 1 is the last in sight.
  RunThrough(pool, StreamTokens(1, 20));
  RunThrough(pool, StreamTokens(kChildrenScannedMax + 1, 20));
  EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(1, 20)).tokens(), 19);
  EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(2, 20)).tokens(), 0);

  // Full pages are found by their hash, however many there are.
  RunThrough(pool, StreamTokens(500, kKvPageTokens));
  for (int32_t stream = 501; stream < 503 + kChildrenScannedMax; ++stream) {
    RunThrough(pool, StreamTokens(stream, 20));
  }
  EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(500, 65)).page_count, 1);
}

TEST(PrefixCache, ServesMoreKeysOverTimeThanPages) {
  KvPool pool(3);
  for (uint64_t i = 0; i < 1000; ++i) {
    RunThrough(pool, StreamTokens(0, 70), {i, i});
    EXPECT_EQ(pool.prefix_cache().Match({i, i}, StreamTokens(0, 71)).tokens(), 70);
    if (i > 0) {
      // One page was free, the other was the older key's tail.
      EXPECT_EQ(pool.prefix_cache().Match({i - 1, i - 1}, StreamTokens(0, 71)).tokens(), 64);
    }
  }
}

TEST(PrefixCache, TakesOutLeavesBeforeWhatIsAbove) {
  KvPool pool(10);
  RunThrough(pool, PromptSharing(128, 256, 1));
  RunThrough(pool, PromptSharing(128, 256, 2));
  PrefixCache cache = pool.prefix_cache();
  std::vector<int32_t> children(10, 0);
  for (int32_t page = 0; page < 10; ++page) {
    if (!cache.IsPublished(KvPageId(page))) continue;
    const KvPageId parent = cache.parent(KvPageId(page));
    if (parent != kNoKvPage) ++children[static_cast<size_t>(Index(parent))];
  }
  int32_t taken = 0;
  while (cache.pages_unreferenced() > 0) {
    std::vector<KvPageId> parents;
    for (int32_t page = 0; page < 10; ++page) parents.push_back(cache.parent(KvPageId(page)));
    const auto page = static_cast<size_t>(Index(cache.Evict()));
    EXPECT_EQ(children[page], 0);
    if (parents[page] != kNoKvPage) --children[static_cast<size_t>(Index(parents[page]))];
    ++taken;
  }
  EXPECT_EQ(taken, 6);
  EXPECT_EQ(cache.Evict(), kNoKvPage);
}

TEST(PrefixCacheDeathTest, RefusesWhatWouldBreakTheTree) {
  const auto full = StreamTokens(0, kKvPageTokens);
  const auto tail = StreamTokens(1, 5);
  PrefixCache cache(4, 0);
  cache.Insert(kKey, kNoKvPage, KvPageId(0), full);
  cache.Insert(kKey, KvPageId(0), KvPageId(1), tail);
  EXPECT_DEATH(cache.Insert(kKey, kNoKvPage, KvPageId(0), full), "published twice");
  EXPECT_DEATH(cache.Insert(kKey, KvPageId(1), KvPageId(2), tail), "only a full page");
  EXPECT_DEATH(cache.Insert(kKey, kNoKvPage, KvPageId(2), {}), "can't hold that");
  EXPECT_DEATH(cache.Insert(kKey, kNoKvPage, KvPageId(4), tail), "no page of this cache");
  EXPECT_DEATH(cache.AddReference(KvPageId(3)), "isn't published");
  EXPECT_DEATH(cache.DropReference(KvPageId(3)), "nobody had");
  EXPECT_DEATH((void)cache.Match(kKey, full, {.tail_grain = 7}), "grains don't fill a page");
  cache.DropReference(KvPageId(0));  // before its child
  EXPECT_DEATH(cache.Insert(kKey, KvPageId(0), KvPageId(2), tail), "a page nobody holds");
  EXPECT_DEATH(cache.Evict(), "before its children");
}

}  // namespace
}  // namespace remontoir
