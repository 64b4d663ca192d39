// Facts about memory on the request path: the KV room takes none after it was made.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <new>

#include "base/random.h"
#include "kv/kv_buckets.h"
#include "tests/unit/kv/kv_tokens.h"

namespace {

thread_local int64_t allocations = 0;

void* Allocate(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace remontoir {
namespace {

TEST(Allocation, NoneBetweenAdmissionAndRelease) {
  constexpr int kPages = 40;
  constexpr int kLeases = 6;
  KvPool pool(kPages);
  std::deque<KvLease> leases;
  for (int i = 0; i < kLeases; ++i) leases.emplace_back(pool, kPages);
  const std::vector<int32_t> classes = {128, 256, 512};
  BucketCounts buckets(classes, 2);
  std::vector<BucketId> taken(kLeases, kNoBucket);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 60; ++i) prompts.push_back(PromptSharing(7 * i, 450, i % 9 + 1));
  std::vector<size_t> prompt_of(kLeases, 0);
  const CounterRandom random(20261130, 0);

  const int64_t before = allocations;
  for (uint64_t step = 0; step < 20'000; ++step) {
    const uint64_t bits = random.Bits(step);
    const size_t i = bits % kLeases;
    KvLease& lease = leases[i];
    const std::span<const int32_t> prompt = prompts[prompt_of[i]];
    const size_t known = (bits >> 16) % prompt.size() + 1;
    const auto room = static_cast<size_t>(lease.tokens_max());
    if (lease.pages().empty()) {
      prompt_of[i] = (bits >> 40) % prompts.size();
      const auto wanted = std::span<const int32_t>(prompts[prompt_of[i]]).first(known);
      const PrefixMatch match =
          pool.prefix_cache().Match({bits >> 60, 0}, wanted, {.tail_grain = 8});
      taken[i] = buckets.Take(static_cast<int64_t>(known));
      if (taken[i] == kNoBucket) continue;
      if (!lease.Reserve(match, PagesFor(static_cast<int64_t>(known)))) {
        buckets.Return(taken[i]);
        continue;
      }
      lease.TailCopied();
      continue;
    }
    switch (bits >> 8 & 3) {
      case 0: lease.Publish(prompt.first(std::min(known, room))); break;
      case 1: {
        const BucketId larger = buckets.Grow(taken[i], lease.tokens_max() + kKvPageTokens);
        if (larger == kNoBucket) break;
        taken[i] = larger;
        (void)lease.Grow();
        break;
      }
      default: {
        const auto computed = static_cast<size_t>(lease.pages_published()) * kKvPageTokens;
        lease.PublishAndRelease(prompt.first(std::min(std::max(known, computed), room)));
        buckets.Return(taken[i]);
      }
    }
  }
  const KvStats stats = pool.stats();
  EXPECT_EQ(allocations, before);
  EXPECT_GT(stats.hits, 1000);
  EXPECT_GT(stats.tail_copies, 100);
  EXPECT_GT(stats.evictions, 1000);
}

}  // namespace
}  // namespace remontoir
