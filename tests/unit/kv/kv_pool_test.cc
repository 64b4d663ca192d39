// Leases take, share and return pages; cached ones go to who needs room.
#include "kv/kv_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "base/random.h"
#include "tests/unit/kv/kv_tokens.h"

namespace remontoir {
namespace {

TEST(KvPool, RoundsTokensUpToPages) {
  const struct {
    int64_t tokens;
    int32_t pages;
  } cases[] = {{0, 0}, {1, 1}, {63, 1}, {64, 1}, {65, 2}, {128, 2}, {129, 3}};
  for (const auto& c : cases) EXPECT_EQ(PagesFor(c.tokens), c.pages) << c.tokens;
}

TEST(KvLease, TakesAllPagesAskedForOrNone) {
  KvPool pool(4);
  KvLease first(pool, 8);
  KvLease second(pool, 8);
  EXPECT_TRUE(first.Reserve(3));
  EXPECT_FALSE(second.Reserve(2));
  EXPECT_EQ(pool.pages_free(), 1);
  EXPECT_TRUE(second.pages().empty());
  EXPECT_TRUE(second.Reserve(1));
  EXPECT_EQ(pool.pages_free(), 0);
  EXPECT_EQ(first.tokens_max(), 192);
}

TEST(KvLease, GrowsIntoFreePagesUpToItsOwnBound) {
  KvPool pool(4);
  KvLease lease(pool, 3);
  ASSERT_TRUE(lease.Reserve(2));
  const KvPageId kept = lease.pages()[0];
  EXPECT_TRUE(lease.Grow());
  EXPECT_FALSE(lease.Grow());  // its bound
  EXPECT_EQ(pool.pages_free(), 1);
  EXPECT_EQ(lease.pages()[0], kept);

  KvLease other(pool, 3);
  ASSERT_TRUE(other.Reserve(1));
  EXPECT_FALSE(other.Grow());  // the pool's
}

TEST(KvLease, GivesItsPagesBackWhenItGoes) {
  KvPool pool(2);
  {
    KvLease lease(pool, 2);
    ASSERT_TRUE(lease.Reserve(2));
  }
  EXPECT_EQ(pool.pages_free(), 2);
}

TEST(KvLease, ReservesAgainAfterARelease) {
  KvPool pool(2);
  KvLease lease(pool, 2);
  ASSERT_TRUE(lease.Reserve(2));
  const std::vector<KvPageId> before(lease.pages().begin(), lease.pages().end());
  lease.Release();
  lease.Release();
  ASSERT_TRUE(lease.Reserve(2));
  EXPECT_EQ(before, std::vector<KvPageId>(lease.pages().begin(), lease.pages().end()));
}

TEST(KvLeaseDeathTest, RefusesToReserveTwice) {
  KvPool pool(2);
  KvLease lease(pool, 2);
  ASSERT_TRUE(lease.Reserve(1));
  EXPECT_DEATH((void)lease.Reserve(1), "reserves once");
}

TEST(KvLease, SharesPagesWhileTheirSequenceStillRuns) {
  KvPool pool(10);
  KvLease first(pool, 5);
  KvLease second(pool, 5);
  const auto tokens = StreamTokens(0, 200);
  ASSERT_TRUE(first.Reserve(pool.prefix_cache().Match(kKey, tokens), 4));
  first.Publish(std::span(tokens).first(63));
  EXPECT_EQ(first.pages_published(), 0);
  first.Publish(std::span(tokens).first(130));
  EXPECT_EQ(first.pages_published(), 2);
  const std::vector<KvPageId> before = PagesOf(first);

  const PrefixMatch match = pool.prefix_cache().Match(kKey, tokens);
  EXPECT_EQ(match.tokens(), 128);
  ASSERT_TRUE(second.Reserve(match, 4));
  EXPECT_EQ(second.tokens_matched(), 128);
  EXPECT_EQ(second.pages()[0], first.pages()[0]);
  EXPECT_EQ(second.pages()[1], first.pages()[1]);
  EXPECT_NE(second.pages()[2], first.pages()[2]);
  EXPECT_EQ(pool.pages_free(), 4);
  EXPECT_EQ(pool.state(first.pages()[1]), KvPageState::kPublished);
  EXPECT_EQ(pool.state(first.pages()[2]), KvPageState::kLeased);

  first.Release();
  EXPECT_EQ(pool.pages_free(), 6);
  EXPECT_EQ(pool.pages_available(), 6);  // what the second holds isn't for the taking
  EXPECT_EQ(PagesOf(second)[1], before[1]);
  second.Release();
  EXPECT_EQ(pool.pages_free(), 8);
  EXPECT_EQ(pool.pages_available(), 10);
}

TEST(KvLease, KeepsItsOwnPageBesideATwinAndPublishesBelowTheTwin) {
  KvPool pool(10);
  KvLease first(pool, 5);
  KvLease second(pool, 5);
  const auto one = PromptSharing(64, 150, 1);
  const auto other = PromptSharing(64, 150, 2);
  ASSERT_TRUE(first.Reserve(pool.prefix_cache().Match(kKey, one), 3));
  ASSERT_TRUE(second.Reserve(pool.prefix_cache().Match(kKey, other), 3));
  const std::vector<KvPageId> own = PagesOf(second);
  first.Publish(one);
  second.Publish(other);
  EXPECT_EQ(PagesOf(second), own);
  EXPECT_EQ(pool.state(own[0]), KvPageState::kLeased);
  EXPECT_EQ(pool.state(own[1]), KvPageState::kPublished);
  const KvPageId twin = first.pages()[0];
  EXPECT_EQ(pool.prefix_cache().parent(own[1]), twin);
  EXPECT_EQ(pool.prefix_cache().references(twin), 2);

  first.Release();
  EXPECT_EQ(pool.prefix_cache().references(twin), 1);  // what stands above one's own page stays
  second.Release();
  const PrefixMatch match = pool.prefix_cache().Match(kKey, other);
  EXPECT_EQ(match.page_count, 2);
  EXPECT_EQ(match.last_page, own[1]);
  EXPECT_EQ(pool.pages_free(), 7);
  EXPECT_EQ(pool.stats().pages_cached, 3);
}

TEST(KvLease, HoldsTheTailsSourceUntilItIsCopied) {
  KvPool pool(5);
  RunThrough(pool, StreamTokens(0, 100));
  KvLease lease(pool, 5);
  KvLease pressure(pool, 5);
  const auto prompt = PromptSharing(90, 150);
  ASSERT_TRUE(lease.Reserve(pool.prefix_cache().Match(kKey, prompt), 3));
  const TailCopy tail = lease.tail();
  EXPECT_EQ(tail.tokens, 26);
  EXPECT_EQ(tail.target, lease.pages()[1]);
  EXPECT_EQ(lease.tokens_matched(), 90);
  EXPECT_EQ(pool.state(tail.target), KvPageState::kLeased);
  EXPECT_EQ(pool.state(tail.source), KvPageState::kPublished);
  EXPECT_EQ(pool.pages_available(), 1);
  EXPECT_FALSE(pressure.Reserve(2));
  lease.TailCopied();
  EXPECT_EQ(lease.tail().tokens, 0);
  EXPECT_EQ(lease.tokens_matched(), 90);
  EXPECT_TRUE(pressure.Reserve(2));
  EXPECT_EQ(pressure.pages()[1], tail.source);
}

TEST(KvLease, LetsTheTailGoWhereItsSourceIsTheLastPage) {
  KvPool pool(3);
  RunThrough(pool, StreamTokens(0, 100));
  KvLease lease(pool, 3);
  const PrefixMatch match = pool.prefix_cache().Match(kKey, PromptSharing(90, 150));
  ASSERT_EQ(match.tokens(), 90);
  ASSERT_TRUE(lease.Reserve(match, 3));
  EXPECT_EQ(lease.tail().tokens, 0);
  EXPECT_EQ(lease.tokens_matched(), 64);
  EXPECT_EQ(lease.pages()[2], match.tail_source);
}

TEST(KvLease, ReleasesTheTailsSourceWithItself) {
  KvPool pool(4);
  RunThrough(pool, StreamTokens(0, 100));
  KvLease lease(pool, 4);
  ASSERT_TRUE(lease.Reserve(pool.prefix_cache().Match(kKey, PromptSharing(90, 100)), 2));
  EXPECT_EQ(pool.stats().pages_shared, 2);
  lease.Release();
  EXPECT_EQ(pool.stats().pages_shared, 0);
  EXPECT_EQ(pool.pages_available(), 4);
}

TEST(KvLease, PublishesATailOnlyWhereNothingCoversIt) {
  // What was published before, then how many tokens of stream 0 a sequence ends with, and what is
  // in the cache afterwards.
  const struct {
    std::vector<int32_t> before;
    int32_t tokens;
    int32_t pages;
  } cases[] = {
      {{}, 10, 1},           {{20}, 10, 1},       {{20}, 20, 1},  {{10}, 20, 1},  // replaced
      {{64}, 10, 1},         {{10}, 64, 1},       {{100}, 70, 2}, {{70}, 100, 2},
      {{10, 20, 30}, 40, 1}, {{70, 130}, 128, 3},
  };
  for (const auto& c : cases) {
    KvPool pool(8);
    for (const int32_t tokens : c.before) RunThrough(pool, StreamTokens(0, tokens));
    RunThrough(pool, StreamTokens(0, c.tokens));
    const int32_t longest =
        c.before.empty() ? c.tokens : std::max(c.tokens, *std::ranges::max_element(c.before));
    EXPECT_EQ(pool.stats().pages_cached, c.pages) << c.tokens;
    EXPECT_EQ(pool.pages_free(), 8 - c.pages) << c.tokens;
    EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(0, 300)).tokens(), longest) << c.tokens;
  }
}

TEST(KvLease, LeavesAShorterTailThatSomebodyCopies) {
  KvPool pool(8);
  RunThrough(pool, StreamTokens(0, 10));
  KvLease copying(pool, 4);
  ASSERT_TRUE(copying.Reserve(pool.prefix_cache().Match(kKey, StreamTokens(0, 11)), 1));
  const KvPageId source = copying.tail().source;
  RunThrough(pool, StreamTokens(0, 20));
  EXPECT_EQ(pool.state(source), KvPageState::kPublished);
  EXPECT_EQ(pool.stats().pages_shared, 1);
}

TEST(KvPool, CountsExactlyWhatAReservationTakes) {
  const auto tokens = StreamTokens(0, 200);  // three pages and a tail
  const struct {
    int32_t held_tokens;  // of these, by a running lease
    int32_t common;       // the prompt's
    int32_t pages;
    int32_t needed;
  } cases[] = {
      {0, 0, 4, 4},    {0, 150, 4, 4},   {0, 200, 8, 8},   {65, 150, 4, 3},
      {64, 150, 4, 4}, {129, 150, 4, 2}, {200, 150, 4, 2}, {200, 201, 8, 5},
  };
  for (const auto& c : cases) {
    KvPool pool(12);
    RunThrough(pool, tokens);
    KvLease holder(pool, 12);
    const auto held = std::span(tokens).first(static_cast<size_t>(c.held_tokens));
    if (c.held_tokens > 0) {
      const PrefixMatch match = pool.prefix_cache().Match(kKey, held);
      ASSERT_TRUE(holder.Reserve(match, match.page_count + 1));
      holder.TailCopied();
    }
    const auto prompt = PromptSharing(c.common, 256);
    for (int32_t room = 0; room <= 1; ++room) {
      KvLease pressure(pool, 12);
      const int32_t pressing = pool.pages_available() - c.needed + 1 - room;
      ASSERT_TRUE(pressing <= 0 || pressure.Reserve(pressing));
      // Pressure may have taken matched pages: each costs a page as before.
      const PrefixMatch match = pool.prefix_cache().Match(kKey, prompt);
      EXPECT_EQ(pool.PagesNeeded(match, c.pages), c.needed) << c.held_tokens << " " << c.common;
      EXPECT_EQ(pool.CanReserve(match, c.pages), room == 1);
      KvLease lease(pool, 12);
      const KvStats before = pool.stats();
      EXPECT_EQ(lease.Reserve(match, c.pages), room == 1);
      if (room == 0) {
        EXPECT_TRUE(lease.pages().empty());
        EXPECT_EQ(pool.stats().pages_cached, before.pages_cached);
        EXPECT_EQ(pool.stats().pages_free, before.pages_free);
      } else {
        EXPECT_EQ(lease.pages().size(), static_cast<size_t>(c.pages));
        lease.TailCopied();
        EXPECT_EQ(pool.pages_available(), 0);
      }
    }
  }
}

TEST(KvPool, EvictsWhatWasUsedLongestAgoAndOnlyWhenPagesLack) {
  KvPool pool(6);
  RunThrough(pool, StreamTokens(1, 64));
  RunThrough(pool, StreamTokens(2, 64));
  RunThrough(pool, StreamTokens(3, 128));
  RunThrough(pool, StreamTokens(1, 65));  // a use, and a tail that costs a page
  const auto cached = [&](int32_t stream) {
    return pool.prefix_cache().Match(kKey, StreamTokens(stream, 200)).tokens();
  };
  KvLease lease(pool, 6);
  ASSERT_TRUE(lease.Reserve(1));
  EXPECT_EQ(pool.stats().evictions, 0);
  EXPECT_EQ(cached(2), 64);
  ASSERT_TRUE(lease.Grow());
  EXPECT_EQ(cached(2), 0);
  ASSERT_TRUE(lease.Grow());
  EXPECT_EQ(cached(3), 64);  // the deeper page goes first
  ASSERT_TRUE(lease.Grow());
  EXPECT_EQ(cached(3), 0);
  EXPECT_EQ(cached(1), 65);
  ASSERT_TRUE(lease.Grow());
  EXPECT_EQ(cached(1), 64);
  ASSERT_TRUE(lease.Grow());
  EXPECT_EQ(cached(1), 0);
  EXPECT_FALSE(lease.Grow());
  EXPECT_EQ(pool.stats().evictions, 5);
}

TEST(KvPool, IsLeftAsItWasByALeaseOutsideTheCache) {
  KvPool pool(6);
  RunThrough(pool, StreamTokens(0, 128));
  KvLease lease(pool, 6);
  ASSERT_TRUE(lease.Reserve(3));
  EXPECT_EQ(lease.tokens_matched(), 0);
  for (const KvPageId page : lease.pages()) EXPECT_EQ(pool.state(page), KvPageState::kLeased);
  lease.Release();
  EXPECT_EQ(pool.stats().pages_cached, 2);
  EXPECT_EQ(pool.stats().hits + pool.stats().misses, 1);  // the first sequence's
}

TEST(KvPool, FreesEverythingCachedAtOnce) {
  KvPool pool(6);
  KvLease lease(pool, 6);
  const auto tokens = StreamTokens(0, 128);
  ASSERT_TRUE(lease.Reserve(pool.prefix_cache().Match(kKey, tokens), 2));
  lease.Publish(tokens);
  RunThrough(pool, StreamTokens(1, 150));
  pool.ClearCache();
  EXPECT_EQ(pool.pages_free(), 4);
  EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(1, 150)).tokens(), 0);
  EXPECT_EQ(pool.prefix_cache().Match(kKey, StreamTokens(0, 150)).tokens(), 128);  // still held
  lease.Release();
  pool.ClearCache();
  EXPECT_EQ(pool.pages_free(), 6);
  EXPECT_EQ(pool.stats().evictions, 0);
}

TEST(KvPool, CountsHitsMissesAndPages) {
  KvPool pool(10);
  RunThrough(pool, StreamTokens(0, 100));  // a miss
  RunThrough(pool, StreamTokens(1, 10));   // a miss
  KvLease lease(pool, 10);
  ASSERT_TRUE(lease.Reserve(pool.prefix_cache().Match(kKey, PromptSharing(80, 100)), 3));
  KvStats stats = pool.stats();
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.misses, 2);
  EXPECT_EQ(stats.tokens_matched, 80);
  EXPECT_EQ(stats.tail_copies, 1);
  EXPECT_EQ(stats.pages_total, 10);
  EXPECT_EQ(stats.pages_free, 5);
  EXPECT_EQ(stats.pages_leased, 2);
  EXPECT_EQ(stats.pages_shared, 2);  // the tail's source until it is copied
  EXPECT_EQ(stats.pages_cached, 1);
}

TEST(KvPoolDeathTest, KnowsItsOwnPagesOnly) {
  KvPool pool(4);
  EXPECT_EQ(pool.state(KvPageId(3)), KvPageState::kFree);
  EXPECT_DEATH((void)pool.state(KvPageId(4)), "no page of this pool");
  EXPECT_DEATH((void)pool.state(kNoKvPage), "no page of this pool");
}

TEST(KvLeaseDeathTest, RefusesAMatchFromBeforeAPageLeft) {
  KvPool pool(4);
  RunThrough(pool, StreamTokens(0, 100));
  const auto prompt = PromptSharing(100, 150);
  const PrefixMatch match = pool.prefix_cache().Match(kKey, prompt);
  pool.ClearCache();
  KvLease lease(pool, 4);
  EXPECT_DEATH((void)lease.Reserve(match, 3), "before a page left");
}

TEST(KvLeaseDeathTest, RefusesToPublishWhatIsNotReady) {
  KvPool pool(6);
  RunThrough(pool, StreamTokens(0, 100));
  const auto prompt = PromptSharing(90, 128);
  KvLease outside(pool, 3);
  ASSERT_TRUE(outside.Reserve(2));
  EXPECT_DEATH(outside.Publish(prompt), "without a key");
  KvLease lease(pool, 3);
  ASSERT_TRUE(lease.Reserve(pool.prefix_cache().Match(kKey, prompt), 2));
  EXPECT_DEATH(lease.Publish(prompt), "before the tail was copied");
  lease.TailCopied();
  EXPECT_DEATH(lease.Publish(StreamTokens(0, 129)), "more tokens than room");
}

// 100,000 random operations on 12 leases against a list of owners.
TEST(KvPool, NeverSharesOrLosesAPage) {
  constexpr int kPages = 97;
  constexpr int kLeases = 12;
  constexpr int kPagesMax = 20;
  KvPool pool(kPages);
  std::deque<KvLease> leases;
  for (int i = 0; i < kLeases; ++i) leases.emplace_back(pool, kPagesMax);
  std::vector<std::vector<KvPageId>> expected(kLeases);
  std::vector<int> owner(kPages, -1);
  int free_pages = kPages;

  const CounterRandom random(20261129, 0);
  for (int step = 0; step < 100'000; ++step) {
    const uint64_t bits = random.Bits(step);
    const int i = static_cast<int>(bits % kLeases);
    KvLease& lease = leases[i];
    const size_t held = lease.pages().size();
    switch (bits >> 32 & 3) {
      case 0:
        lease.Release();
        for (const KvPageId page : expected[i]) owner[Index(page)] = -1;
        free_pages += static_cast<int>(held);
        break;
      case 1: {
        const int wanted = static_cast<int>(bits >> 40) % (kPagesMax + 1);
        if (held != 0) break;
        ASSERT_EQ(lease.Reserve(wanted), wanted <= free_pages);
        break;
      }
      default: ASSERT_EQ(lease.Grow(), free_pages > 0 && held < kPagesMax);
    }
    // What it held stays in place; what is new had no owner.
    const auto pages = lease.pages();
    for (size_t k = 0; k < pages.size(); ++k) {
      if (k < held) {
        ASSERT_EQ(pages[k], expected[i][k]);
        continue;
      }
      ASSERT_EQ(owner[Index(pages[k])], -1) << "page with two owners at step " << step;
      owner[Index(pages[k])] = i;
      --free_pages;
    }
    expected[i].assign(pages.begin(), pages.end());
    ASSERT_EQ(pool.pages_free(), free_pages);
  }
  for (KvLease& lease : leases) lease.Release();
  EXPECT_EQ(pool.pages_free(), kPages);
  ASSERT_TRUE(leases[0].Reserve(kPagesMax));
  EXPECT_EQ(std::set<KvPageId>(leases[0].pages().begin(), leases[0].pages().end()).size(),
            size_t{kPagesMax});
}

}  // namespace
}  // namespace remontoir
