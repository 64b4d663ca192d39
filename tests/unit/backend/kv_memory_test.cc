// Facts about the memory of KV pages: numbers are addresses, and dynamic ranges own what is under
// them.
#include "backend/kv_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "base/worker_pool.h"

namespace remontoir {
namespace {

KvPageRange Range(int32_t begin, int32_t count) { return {KvPageId(begin), count}; }

KvMemory Take(int64_t page_bytes, const KvMemoryOptions& options) {
  WorkerPool pool(2);
  Result<KvMemory> memory = KvMemory::Take(page_bytes, options, pool, nullptr);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  return *std::move(memory);
}

std::byte* Page(const KvMemory& memory, int32_t page) {
  return memory.base() + page * memory.page_bytes();
}

TEST(KvPageGranule, IsTheFewestPagesThatAreWholeSystemPages) {
  const struct {
    int64_t page_bytes;
    int32_t granule;
  } kCases[] = {{4096, 1}, {1'474'560, 1}, {783'360, 4}, {9216, 4}, {64, 64}, {4096 + 64, 64}};
  for (const auto& c : kCases) EXPECT_EQ(KvPageGranule(c.page_bytes), c.granule) << c.page_bytes;
}

TEST(KvMemory, DynamicPagesFollowTheArenaAtTheNextGranule) {
  const KvMemory memory = Take(9216, {.arena_pages = 5, .dynamic_pages = 9});
  EXPECT_EQ(memory.granule(), 4);
  EXPECT_EQ(memory.dynamic_pages(), Range(8, 12));
  EXPECT_TRUE(memory.Has(KvPageId(4)));
  for (int32_t page : {-1, 5, 7, 8, 19, 20}) EXPECT_FALSE(memory.Has(KvPageId(page))) << page;
}

TEST(KvMemory, TheArenaIsPrefaultedAndDynamicPagesAreNot) {
  const KvMemory memory = Take(9216, {.arena_pages = 5, .dynamic_pages = 9});
  const MemoryState& arena = memory.report().arena;
  EXPECT_EQ(arena.state, MemoryBacking::kPrefaulted);
  EXPECT_EQ(arena.bytes, 12 * 4096);  // 5 * 9216, in whole pages of the system
  EXPECT_EQ(arena.prefaulted_bytes, arena.bytes);
  EXPECT_EQ(memory.report().dynamic_bytes, 0);
}

TEST(KvMemory, WithoutAnArenaAllPagesAreDynamic) {
  KvMemory memory = Take(4096, {.dynamic_pages = 3});
  EXPECT_EQ(memory.dynamic_pages(), Range(0, 3));
  EXPECT_EQ(memory.report().arena.bytes, 0);
  ASSERT_TRUE(memory.TakeDynamic(Range(0, 3)).ok());
  std::memset(Page(memory, 0), 1, 3 * 4096);
}

TEST(KvMemory, DynamicRangesComeZeroedAndLeaveTheirNeighboursAlone) {
  KvMemory memory = Take(9216, {.arena_pages = 8, .dynamic_pages = 12});
  std::memset(Page(memory, 0), 1, 8 * 9216);
  ASSERT_TRUE(memory.TakeDynamic(Range(8, 4)).ok());
  ASSERT_TRUE(memory.TakeDynamic(Range(12, 4)).ok());
  ASSERT_TRUE(memory.TakeDynamic(Range(16, 4)).ok());
  std::memset(Page(memory, 8), 2, 12 * 9216);
  EXPECT_EQ(memory.report().dynamic_bytes, 12 * 9216);
  memory.GiveBackDynamic(Range(12, 4));
  EXPECT_EQ(memory.report().dynamic_bytes, 8 * 9216);
  EXPECT_FALSE(memory.Has(KvPageId(12)));
  EXPECT_EQ(*(Page(memory, 12) - 1), std::byte{2});
  EXPECT_EQ(*Page(memory, 16), std::byte{2});
  EXPECT_EQ(*(Page(memory, 8) - 1), std::byte{1});
  ASSERT_TRUE(memory.TakeDynamic(Range(12, 4)).ok());
  EXPECT_TRUE(memory.Has(KvPageId(15)));
  for (int64_t i = 0; i < 4 * 9216; ++i) ASSERT_EQ(Page(memory, 12)[i], std::byte{0});
}

TEST(KvMemory, LocksASmallArenaOrSaysWhyNot) {
  const KvMemory memory = Take(4096, {.arena_pages = 16, .lock = true});
  const bool locked = memory.report().arena.state == MemoryBacking::kLocked;
  EXPECT_EQ(memory.report().arena.locked_bytes, locked ? 16 * 4096 : 0);
  EXPECT_EQ(memory.report().notes.empty(), locked);
}

TEST(KvMemory, RefusesWhatCanNotBeCounted) {
  WorkerPool pool(1);
  const struct {
    int64_t page_bytes;
    KvMemoryOptions options;
  } kCases[] = {
      {4096, {}},
      {4096, {.arena_pages = -1, .dynamic_pages = 2}},
      {int64_t{1} << 40, {.arena_pages = INT32_MAX}},
      {4096, {.arena_pages = INT32_MAX, .dynamic_pages = INT32_MAX}},
      {int64_t{1} << 40, {.arena_pages = 1 << 20}},
  };
  for (const auto& c : kCases) {
    EXPECT_FALSE(KvMemory::Take(c.page_bytes, c.options, pool, nullptr).ok());
  }
}

TEST(KvMemoryDeathTest, RangesThatAreNotThereAreBugs) {
  KvMemory memory = Take(9216, {.arena_pages = 5, .dynamic_pages = 12});
  ASSERT_TRUE(memory.TakeDynamic(Range(8, 4)).ok());
  EXPECT_DEATH((void)memory.TakeDynamic(Range(8, 8)), "pages not out");
  EXPECT_DEATH((void)memory.TakeDynamic(Range(12, 3)), "whole granules");
  EXPECT_DEATH((void)memory.TakeDynamic(Range(4, 4)), "whole granules");
  EXPECT_DEATH((void)memory.TakeDynamic(Range(16, 8)), "whole granules");
  EXPECT_DEATH(memory.GiveBackDynamic(Range(8, 8)), "dynamic pages that are out");
}

}  // namespace
}  // namespace remontoir
