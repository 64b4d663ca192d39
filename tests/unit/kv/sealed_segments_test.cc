// Sealed segments stay with the pages that they were made from, and go to who needs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"
#include "kv/kv_pool.h"
#include "tests/unit/kv/kv_tokens.h"

namespace remontoir {
namespace {

// Room for a prompt and a page more, with its segments; nothing was computed yet.
bool Take(KvPool& pool, KvLease& lease, const std::vector<int32_t>& tokens, int32_t segments) {
  const PrefixMatch match = pool.prefix_cache().Match(kKey, tokens);
  if (!lease.Reserve(match, PagesFor(std::ssize(tokens)) + 1)) return false;
  lease.TailCopied();
  return lease.TakeSegments(segments);
}

TEST(SealedSegments, StayWithTheirPagesForWhoFindsThem) {
  KvPool pool(200, 0, 8);
  const std::vector<int32_t> prompt = StreamTokens(0, 3000);
  KvLease first(pool, 100);
  ASSERT_TRUE(Take(pool, first, prompt, 2));
  first.Publish(std::span(prompt).first(1500));
  first.KeepSegments(0);  // not sealed yet
  EXPECT_EQ(pool.stats().segments_kept, 0);
  first.KeepSegments(1);
  EXPECT_EQ(first.segments_kept(), 1);
  first.KeepSegments(2);  // sealed, but its pages aren't published
  EXPECT_EQ(first.segments_kept(), 1);
  first.Publish(prompt);
  first.KeepSegments(2);
  EXPECT_EQ(first.segments_kept(), 2);
  const std::vector<SealedSegmentId> made(first.segments().begin(), first.segments().end());

  // The whole prompt, most of it, and so much that the second segment's last page isn't there.
  const struct {
    int32_t common;
    int32_t kept;
  } kCases[] = {{3000, 2}, {2200, 2}, {SegmentEnd(1) - 1, 1}, {1000, 0}};
  for (const auto& c : kCases) {
    KvLease lease(pool, 100);
    ASSERT_TRUE(Take(pool, lease, PromptSharing(c.common, 3001), 2));
    EXPECT_EQ(lease.segments_kept(), c.kept) << c.common;
    for (int32_t s = 0; s < 2; ++s) {
      EXPECT_EQ(lease.segments()[s] == made[s], s < c.kept) << c.common;
    }
  }
  EXPECT_EQ(pool.segments_available(), 6);
  first.PublishAndRelease(prompt);
  EXPECT_EQ(pool.segments_available(), 8);
  EXPECT_EQ(pool.stats().segments_kept, 2);
  pool.ClearCache();
  EXPECT_EQ(pool.stats().segments_free, 8);
}

TEST(SealedSegments, OfTwoWhoMadeTheSameOneIsKept) {
  KvPool pool(200, 0, 4);
  const std::vector<int32_t> prompt = StreamTokens(0, 1300);
  KvLease first(pool, 100);
  KvLease second(pool, 100);
  ASSERT_TRUE(Take(pool, first, prompt, 1));
  ASSERT_TRUE(Take(pool, second, prompt, 1));
  first.Publish(prompt);
  second.Publish(prompt);
  first.KeepSegments(1);
  second.KeepSegments(1);
  EXPECT_EQ(first.segments()[0], second.segments()[0]);
  EXPECT_EQ(pool.stats().segments_free, 3);
  first.PublishAndRelease(prompt);
  EXPECT_EQ(pool.segments_available(), 3) << "somebody still reads it";
}

TEST(SealedSegments, AreTakenFromTheLeastRecentlyUsedPagesWhichStay) {
  KvPool pool(200, 0, 3);
  for (int32_t stream = 0; stream < 2; ++stream) {
    const std::vector<int32_t> prompt = StreamTokens(stream, 1300);
    KvLease lease(pool, 100);
    ASSERT_TRUE(Take(pool, lease, prompt, 1));
    lease.Publish(prompt);
    lease.KeepSegments(1);
    lease.PublishAndRelease(prompt);
  }
  KvLease other(pool, 100);
  EXPECT_FALSE(other.TakeSegments(4));
  EXPECT_TRUE(other.segments().empty());
  EXPECT_TRUE(other.TakeSegments(2));
  for (int32_t stream = 0; stream < 2; ++stream) {
    const PrefixMatch match = pool.prefix_cache().Match(kKey, StreamTokens(stream, 1301));
    EXPECT_EQ(match.tokens(), 1300);
    EXPECT_EQ(pool.KeptWith(match).count, stream);
    EXPECT_EQ(pool.KeptWith(match).unreferenced, stream);
  }
}

// Leases by seed: whoever finds a segment with its pages finds what was made from them, nobody has
// another's, and what was said to be available is.
class RandomLeases {
 public:
  explicit RandomLeases(uint64_t seed) : random_(seed, 1), pool_(kPages, seed, kSegments) {}

  void Play(int32_t steps) {
    for (int32_t i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Step();
      Check();
    }
    for (auto& one : leases_) one.lease->Release();
    EXPECT_EQ(pool_.segments_available(), kSegments);
    pool_.ClearCache();
    EXPECT_EQ(pool_.stats().segments_free, kSegments);
  }

  int64_t found() const { return found_; }
  int64_t refused() const { return refused_; }

 private:
  static constexpr int32_t kPages = 260;
  static constexpr int32_t kSegments = 7;

  struct Sequence {
    std::unique_ptr<KvLease> lease;
    std::vector<int32_t> tokens;
    int32_t computed = 0;
    int32_t sealed = 0;
  };

  int32_t Int(int32_t low, int32_t high) {
    return low +
           static_cast<int32_t>(random_.Bits(next_++) % static_cast<uint64_t>(high - low + 1));
  }

  // Of what a segment must hold.
  static uint64_t HashOf(const std::vector<int32_t>& tokens, int32_t segment) {
    uint64_t hash = 1;
    for (int32_t i = 0; i < SegmentEnd(segment); ++i) {
      hash = hash * 1'000'003 + static_cast<uint64_t>(tokens[static_cast<size_t>(i)]);
    }
    return hash;
  }
  uint64_t& Holds(SealedSegmentId segment) { return holds_[static_cast<size_t>(Index(segment))]; }

  void Join() {
    Sequence sequence;
    const int32_t length = Int(300, 4300);
    sequence.tokens = PromptSharing(std::min(Int(0, 4) * 1100, length), length, Int(1, 3));
    const PrefixMatch match = pool_.prefix_cache().Match(kKey, sequence.tokens);
    // Some are never sparse, and leave pages without segments.
    const int32_t wanted = Int(0, 3) == 0 ? 0 : (length - kAnchorKeys) / kSegmentKeys;
    const KeptSegments kept = pool_.KeptWith(match);
    const int32_t need = std::max(0, wanted - kept.count) + kept.unreferenced;
    const int32_t available = pool_.segments_available();
    const int32_t pages = PagesFor(length) + 1;
    if (need > available || !pool_.CanReserve(match, pages)) {
      ++refused_;
      return;
    }
    sequence.lease = std::make_unique<KvLease>(pool_, 80);
    ASSERT_TRUE(sequence.lease->Reserve(match, pages));
    sequence.lease->TailCopied();
    ASSERT_TRUE(sequence.lease->TakeSegments(wanted));
    EXPECT_GE(pool_.segments_available(), available - need);
    EXPECT_EQ(sequence.lease->segments_kept(), std::min(kept.count, wanted));
    sequence.computed = sequence.lease->tokens_matched();
    sequence.sealed = sequence.lease->segments_kept();
    found_ += sequence.sealed;
    leases_.push_back(std::move(sequence));
  }

  void Step() {
    const int32_t what = Int(0, 9);
    if (leases_.empty() || (what < 2 && leases_.size() < 5)) return Join();
    const auto i = static_cast<size_t>(Int(0, static_cast<int32_t>(leases_.size()) - 1));
    Sequence& sequence = leases_[i];
    const auto length = static_cast<int32_t>(sequence.tokens.size());
    if (what == 2 || (what == 3 && sequence.computed == length)) {
      const auto computed =
          std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed));
      what == 2 ? sequence.lease->Release() : sequence.lease->PublishAndRelease(computed);
      leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    sequence.computed = std::min(length, sequence.computed + Int(1, 700));
    const auto segments = static_cast<int32_t>(sequence.lease->segments().size());
    const int32_t ended = std::max(0, sequence.computed - kAnchorKeys) / kSegmentKeys;
    for (int32_t n = Int(0, 2); n > 0 && sequence.sealed < std::min(ended, segments); --n) {
      Holds(sequence.lease->segments()[sequence.sealed]) = HashOf(sequence.tokens, sequence.sealed);
      ++sequence.sealed;
    }
    sequence.lease->Publish(
        std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed)));
    sequence.lease->KeepSegments(sequence.sealed);
  }

  void Check() {
    std::set<int32_t> owned;
    size_t own = 0;
    for (const Sequence& sequence : leases_) {
      const auto segments = sequence.lease->segments();
      for (int32_t s = 0; s < sequence.sealed; ++s) {
        EXPECT_EQ(Holds(segments[s]), HashOf(sequence.tokens, s)) << "segment " << s;
      }
      for (size_t s = static_cast<size_t>(sequence.lease->segments_kept()); s < segments.size();
           ++s) {
        owned.insert(Index(segments[s]));
        ++own;
      }
    }
    EXPECT_EQ(owned.size(), own) << "a segment of two sequences";
    const KvStats stats = pool_.stats();
    EXPECT_EQ(stats.segments_leased, static_cast<int32_t>(own));
    EXPECT_EQ(stats.segments_free + stats.segments_leased + stats.segments_kept, kSegments);
  }

  const CounterRandom random_;
  uint64_t next_ = 0;
  KvPool pool_;
  std::vector<Sequence> leases_;
  std::vector<uint64_t> holds_ = std::vector<uint64_t>(kSegments);
  int64_t found_ = 0;
  int64_t refused_ = 0;
};

TEST(SealedSegments, HoldWhatTheirPagesSayInAnyOrderOfEvents) {
  int64_t found = 0;
  int64_t refused = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomLeases leases(seed);
    leases.Play(300);
    found += leases.found();
    refused += leases.refused();
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace remontoir
