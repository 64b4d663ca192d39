// Facts about length classes: which there are, and who gets a place in which.
#include "kv/kv_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remontoir {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(PlanBuckets, DropsWhatIsAboveTheContextAndAlwaysCoversIt) {
  const struct {
    std::vector<int64_t> wanted;
    int32_t context_max;
    std::vector<int32_t> tokens;
    std::vector<int64_t> dropped;
  } cases[] = {
      {{4096, 8192, 16384, 32768}, 8192, {4096, 8192}, {16384, 32768}},
      {{4096, 8192, 16384, 32768}, 10000, {4096, 8192, 10000}, {16384, 32768}},
      {{4096, 8192, 16384, 32768}, 32768, {4096, 8192, 16384, 32768}, {}},
      {{4096, 8192}, 1000, {1000}, {4096, 8192}},
      {{512}, 2048, {512, 2048}, {}},
      {{int64_t{1} << 40}, 64, {64}, {int64_t{1} << 40}},
      {{1}, 1, {1}, {}},
      {{}, 1, {1}, {}},
      {{}, 2047, {2047}, {}},
      {{}, 2048, {2048}, {}},
      {{}, 2049, {2048, 2049}, {}},
      {{}, 8192, {2048, 4096, 6144, 8192}, {}},
  };
  for (const auto& c : cases) {
    const Result<BucketPlan> plan = PlanBuckets(c.wanted, c.context_max);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_THAT(plan->tokens, ElementsAreArray(c.tokens)) << c.context_max;
    EXPECT_THAT(plan->dropped, ElementsAreArray(c.dropped)) << c.context_max;
  }
}

TEST(PlanBuckets, StepsBy2048SixteenTimesThenDoubles) {
  const struct {
    int32_t context_max;
    std::vector<int32_t> after;  // what follows 32768
  } cases[] = {
      {32768, {}},
      {32769, {32769}},
      {65536, {65536}},
      {100000, {65536, 100000}},
      {131072, {65536, 131072}},
  };
  for (const auto& c : cases) {
    const Result<BucketPlan> plan = PlanBuckets({}, c.context_max);
    ASSERT_TRUE(plan.ok());
    ASSERT_GE(plan->tokens.size(), 16u);
    for (int32_t i = 0; i < 16; ++i) EXPECT_EQ(plan->tokens[i], (i + 1) * 2048);
    EXPECT_THAT(std::vector(plan->tokens.begin() + 16, plan->tokens.end()),
                ElementsAreArray(c.after));
  }
}

TEST(PlanBuckets, IsBoundedForTheLongestContext) {
  const Result<BucketPlan> plan = PlanBuckets({}, INT32_MAX);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->tokens.size(), 32u);
  EXPECT_EQ(plan->tokens.back(), INT32_MAX);
}

TEST(PlanBuckets, RefusesAListThatMakesNoSenseByItsKey) {
  std::vector<int64_t> many(kBucketsMax + 1);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(64 * (i + 1));
  const struct {
    std::vector<int64_t> wanted;
    const char* message;
  } cases[] = {
      {{4096, 2048}, "kv_cache.prealloc_buckets: 2048 follows 4096, lengths must ascend"},
      {{4096, 4096}, "kv_cache.prealloc_buckets: 4096 follows 4096, lengths must ascend"},
      {{0, 4096}, "kv_cache.prealloc_buckets: 0 is below 1"},
      {{INT64_MIN}, "is below 1"},
      {many, "kv_cache.prealloc_buckets: 65 lengths, at most 64 are possible"},
  };
  for (const auto& c : cases) {
    const Result<BucketPlan> plan = PlanBuckets(c.wanted, 8192);
    ASSERT_FALSE(plan.ok()) << c.message;
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(plan.status().message(), HasSubstr(c.message));
  }
  many.pop_back();
  EXPECT_TRUE(PlanBuckets(many, 8192).ok());
  EXPECT_FALSE(PlanBuckets({}, 0).ok());
}

TEST(BucketCounts, TakeTheSmallestClassThatHoldsTheTokens) {
  const std::vector<int32_t> classes = {2048, 4096, 8192};
  const struct {
    int64_t tokens;
    BucketId bucket;
  } cases[] = {
      {0, BucketId(0)},    {1, BucketId(0)},    {2048, BucketId(0)}, {2049, BucketId(1)},
      {4096, BucketId(1)}, {8192, BucketId(2)}, {8193, kNoBucket},   {INT64_MAX, kNoBucket},
  };
  for (const auto& c : cases) {
    BucketCounts counts(classes, 1);
    EXPECT_EQ(counts.Find(c.tokens), c.bucket) << c.tokens;
    EXPECT_EQ(counts.Take(c.tokens), c.bucket) << c.tokens;
    if (c.bucket != kNoBucket) {
      EXPECT_EQ(counts.taken(c.bucket), 1);
      EXPECT_GE(counts.tokens(c.bucket), c.tokens);
    }
  }
}

TEST(BucketCounts, SpillAFullClassToTheNextLarger) {
  const std::vector<int32_t> classes = {2048, 4096};
  BucketCounts counts(classes, 2);
  std::vector<BucketId> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(counts.Take(100));
  EXPECT_THAT(taken, ElementsAre(BucketId(0), BucketId(0), BucketId(1), BucketId(1), kNoBucket));
  counts.Return(BucketId(0));
  EXPECT_EQ(counts.Take(3000), kNoBucket);  // a smaller class's place is none
  EXPECT_EQ(counts.Take(100), BucketId(0));
}

TEST(BucketCounts, MoveALeaseThatGrowsPastItsClass) {
  const std::vector<int32_t> classes = {2048, 4096, 8192};
  BucketCounts counts(classes, 1);
  const BucketId grown = counts.Take(2000);
  EXPECT_EQ(counts.Grow(grown, 2048), BucketId(0));
  EXPECT_EQ(counts.Grow(grown, 2049), BucketId(1));
  EXPECT_EQ(counts.taken(BucketId(0)), 0);
  EXPECT_EQ(counts.taken(BucketId(1)), 1);

  const BucketId other = counts.Take(2000);
  EXPECT_EQ(other, BucketId(0));
  EXPECT_EQ(counts.Grow(other, 3000), BucketId(2));  // the class between is full
  const BucketId third = counts.Take(2000);
  EXPECT_EQ(counts.Grow(third, 3000), kNoBucket);  // so are all that hold it
  EXPECT_EQ(counts.taken(third), 1);
  EXPECT_EQ(counts.Grow(BucketId(2), 8193), kNoBucket);
}

TEST(BucketCountsDeathTest, RefusePlacesThatNobodyHad) {
  const std::vector<int32_t> classes = {2048};
  BucketCounts counts(classes, 1);
  EXPECT_DEATH(counts.Return(BucketId(0)), "nobody had");
  EXPECT_DEATH(counts.Return(kNoBucket), "no such class");
}

}  // namespace
}  // namespace remontoir
