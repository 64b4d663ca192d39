// Facts about DynamicRanges: first fit in whole granules, and every page has one owner.
#include "backend/dynamic_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace remontoir {
namespace {

KvPageRange Range(int32_t begin, int32_t count) { return {KvPageId(begin), count}; }

TEST(DynamicRanges, TakesTheLowestRangeThatIsLongEnough) {
  DynamicRanges ranges(Range(100, 10), 1);
  EXPECT_EQ(ranges.Take(3), Range(100, 3));
  EXPECT_EQ(ranges.Take(4), Range(103, 4));
  EXPECT_EQ(ranges.pages_free(), 3);
  ranges.GiveBack(Range(100, 3));
  EXPECT_EQ(ranges.Take(2), Range(100, 2));
  // Two runs are free, of one page and of three.
  EXPECT_EQ(ranges.Take(2), Range(107, 2));
  EXPECT_EQ(ranges.pages_free(), 2);
  EXPECT_EQ(ranges.Take(2), std::nullopt) << "no two of them are neighbours";
  EXPECT_EQ(ranges.Take(1), Range(102, 1));
}

TEST(DynamicRanges, RoundsUpToWholeGranules) {
  DynamicRanges ranges(Range(8, 12), 4);
  EXPECT_EQ(ranges.Take(1), Range(8, 4));
  EXPECT_EQ(ranges.Take(5), Range(12, 8));
  EXPECT_EQ(ranges.Take(1), std::nullopt);
  EXPECT_EQ(ranges.pages_free(), 0);
}

TEST(DynamicRanges, ARegionWithoutPagesGivesNone) {
  DynamicRanges ranges(Range(8, 0), 4);
  EXPECT_EQ(ranges.Take(1), std::nullopt);
}

TEST(DynamicRanges, NoPageHasTwoOwnersAndAllComeBack) {
  std::mt19937 random(1);
  for (int32_t granule : {1, 4, 64}) {
    const KvPageRange all = Range(granule * 3, granule * 40);
    DynamicRanges ranges(all, granule);
    std::vector<KvPageRange> out;
    std::set<int32_t> owned;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        const auto pages = static_cast<int32_t>(1 + random() % (10 * granule));
        const std::optional<KvPageRange> range = ranges.Take(pages);
        if (!range.has_value()) continue;
        ASSERT_GE(range->count, pages);
        ASSERT_LT(range->count, pages + granule);
        ASSERT_EQ(Index(range->begin) % granule, 0);
        ASSERT_GE(Index(range->begin), Index(all.begin));
        ASSERT_LE(Index(range->begin) + range->count, Index(all.begin) + all.count);
        for (int32_t i = 0; i < range->count; ++i) {
          ASSERT_TRUE(owned.insert(Index(range->begin) + i).second);
        }
        out.push_back(*range);
      } else if (!out.empty()) {
        std::swap(out[random() % out.size()], out.back());
        for (int32_t i = 0; i < out.back().count; ++i) owned.erase(Index(out.back().begin) + i);
        ranges.GiveBack(out.back());
        out.pop_back();
      }
      ASSERT_EQ(ranges.pages_free(), all.count - static_cast<int32_t>(owned.size()));
    }
    for (const KvPageRange& range : out) ranges.GiveBack(range);
    EXPECT_EQ(ranges.Take(all.count), all) << "nothing was lost";
  }
}

TEST(DynamicRangesDeathTest, GivingBackWhatIsNotOneRangeIsABug) {
  DynamicRanges ranges(Range(8, 24), 4);
  ASSERT_EQ(ranges.Take(8), Range(8, 8));
  ASSERT_EQ(ranges.Take(8), Range(16, 8));
  EXPECT_DEATH(ranges.GiveBack(Range(24, 4)), "a range that is out");
  EXPECT_DEATH(ranges.GiveBack(Range(12, 4)), "a range that is out");
  EXPECT_DEATH(ranges.GiveBack(Range(8, 4)), "one whole range");
  EXPECT_DEATH(ranges.GiveBack(Range(8, 16)), "one whole range");
  EXPECT_DEATH(ranges.GiveBack(Range(8, 3)), "a range of this region");
  EXPECT_DEATH(ranges.GiveBack(Range(28, 8)), "a range of this region");
}

}  // namespace
}  // namespace remontoir
