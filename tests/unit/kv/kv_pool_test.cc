// Leases take and return pages: none shared, none lost, nothing allocated.
#include "kv/kv_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/random.h"

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
