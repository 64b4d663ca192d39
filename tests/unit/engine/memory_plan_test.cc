// Facts about the memory plan: shares by the rules, refusals with arithmetic and true advice.
#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace remontoir {
namespace {

constexpr int64_t kOneGiB = int64_t{1} << 30;
constexpr int64_t kPageBytes = int64_t{1} << 20;

// A GiB of weights and one of activations; a full context is 32 pages of 1 MiB.
MemoryPlanInputs Inputs(int64_t free_bytes) {
  return {.weights_bytes = kOneGiB,
          .activation_bytes = kOneGiB,
          .page_bytes = kPageBytes,
          .context_max = 2048,
          .sequences_max = 8,
          .free_bytes = free_bytes};
}

TEST(PlanMemory, SharesOnAutoAndAsGiven) {
  const struct {
    const char* name;
    MemoryPlanInputs inputs;
    int32_t arena_pages;
    int32_t dynamic_pages;
  } kCases[] = {
      {"what all sequences need", Inputs(8 * kOneGiB), 8 * 32, 32},
      {"a quarter of what is left", Inputs(2 * kOneGiB + 400 * kPageBytes), 100, 32},
      {"the dynamic pages are a quarter of the rest", Inputs(2 * kOneGiB + 80 * kPageBytes), 20,
       15},
      {"a page a sequence at least", Inputs(2 * kOneGiB), 8, 0},
      {"as given, above what sequences need",
       [] {
         MemoryPlanInputs inputs = Inputs(8 * kOneGiB);
         inputs.kv_memory_bytes = kOneGiB + 5;
         inputs.dynamic_bytes_max = 3 * kPageBytes - 1;
         return inputs;
       }(),
       1024, 2},
      {"no arena when dynamic",
       [] {
         MemoryPlanInputs inputs = Inputs(8 * kOneGiB);
         inputs.dynamic = true;
         return inputs;
       }(),
       0, 32},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const MemoryPlan plan = PlanMemory(c.inputs);
    EXPECT_EQ(plan.kv_page_count, c.arena_pages);
    EXPECT_EQ(plan.kv_bytes, c.arena_pages * kPageBytes);
    EXPECT_EQ(plan.dynamic_page_count, c.dynamic_pages);
    EXPECT_EQ(plan.dynamic_bytes, c.dynamic_pages * kPageBytes);
    EXPECT_EQ(plan.total_bytes, 2 * kOneGiB + plan.kv_bytes + plan.dynamic_bytes);
    EXPECT_EQ(plan.free_bytes, c.inputs.free_bytes);
  }
}

TEST(PlanMemory, SealedSegmentsAreThoseOfTheArenaOrOfOneContext) {
  const struct {
    const char* name;
    int64_t free_bytes;
    bool dynamic;
    int32_t arena_pages;
    int32_t segments;
  } kCases[] = {
      {"what all sequences need", 8 * kOneGiB, false, 8 * 32, 17},
      {"arena and segments share a quarter", 2 * kOneGiB + 400 * kPageBytes, false, 50, 4},
      {"one context's when dynamic", 8 * kOneGiB, true, 0, 3},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    MemoryPlanInputs inputs = Inputs(c.free_bytes);
    inputs.dynamic = c.dynamic;
    inputs.segment_bytes = 16 * kPageBytes;  // as large as its pages
    const MemoryPlan plan = PlanMemory(inputs);
    EXPECT_EQ(plan.kv_page_count, c.arena_pages);
    EXPECT_EQ(plan.segment_count, c.segments);
    EXPECT_EQ(plan.sealed_bytes, c.segments * inputs.segment_bytes);
    EXPECT_EQ(plan.total_bytes,
              2 * kOneGiB + plan.kv_bytes + plan.dynamic_bytes + plan.sealed_bytes);
  }
}

TEST(PlanMemory, DynamicPagesAreWholeGranules) {
  MemoryPlanInputs inputs = Inputs(8 * kOneGiB);
  inputs.page_bytes = 9216;
  inputs.dynamic_bytes_max = 6 * 9216;
  EXPECT_EQ(PlanMemory(inputs).dynamic_page_count, 8);
}

TEST(PlanMemory, SumsEndAtTheLargestNumber) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const MemoryPlanInputs inputs = {.weights_bytes = kMost,
                                   .activation_bytes = kMost,
                                   .page_bytes = int64_t{1} << 45,
                                   .context_max = 1 << 24,
                                   .sequences_max = 4096,
                                   .free_bytes = kMost,
                                   .kv_memory_bytes = kMost,
                                   .dynamic_bytes_max = kMost};
  const MemoryPlan plan = PlanMemory(inputs);
  EXPECT_EQ(plan.total_bytes, kMost);
  EXPECT_GT(plan.kv_page_count, 0);
}

TEST(CheckFits, SaysWhatIsNeededWhatIsFreeAndWhatToDo) {
  const struct {
    const char* name;
    MemoryPlanInputs inputs;
    void (*change)(MemoryPlanInputs&);
    const char* says;
  } kCases[] = {
      {"fits", Inputs(8 * kOneGiB), [](MemoryPlanInputs&) {}, ""},
      {"weights", Inputs(kOneGiB), [](MemoryPlanInputs&) {},
       "needs 2.01 GiB, 1.00 GiB free: the weights alone take 1.00 GiB: choose a smaller model"},
      {"activations", Inputs(kOneGiB * 3 / 2), [](MemoryPlanInputs&) {},
       "needs 2.01 GiB, 1.50 GiB free: activations take 1.00 GiB: lower engine.round_tokens_max"},
      {"arena on auto", Inputs(2 * kOneGiB), [](MemoryPlanInputs&) {},
       "needs 2.01 GiB, 2.00 GiB free: lower engine.sequences_max"},
      {"arena as given", Inputs(4 * kOneGiB),
       [](MemoryPlanInputs& i) { i.kv_memory_bytes = 10 * kOneGiB; },
       "needs 12.00 GiB, 4.00 GiB free: lower kv_cache.memory"},
      {"dynamic as given", Inputs(4 * kOneGiB),
       [](MemoryPlanInputs& i) { i.dynamic_bytes_max = 4 * kOneGiB; },
       "4.00 GiB free: lower kv_cache.dynamic_memory_max"},
      {"sealed segments", Inputs(4 * kOneGiB),
       [](MemoryPlanInputs& i) { i.segment_bytes = 3 * kOneGiB; },
       "sealed segments take 9.00 GiB: set attention.mode to exact, or lower model.context"},
      {"less than a page a sequence", Inputs(8 * kOneGiB),
       [](MemoryPlanInputs& i) { i.kv_memory_bytes = 7 * kPageBytes; },
       "keys and values need at least 0.01 GiB for 8 sequences, the plan has 0.01 GiB: raise "
       "kv_cache.memory or lower engine.sequences_max"},
      {"dynamic without a page", Inputs(8 * kOneGiB),
       [](MemoryPlanInputs& i) {
         i.dynamic = true;
         i.dynamic_bytes_max = kPageBytes - 1;
       },
       "raise kv_cache.dynamic_memory_max"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    MemoryPlanInputs inputs = c.inputs;
    c.change(inputs);
    const Status status = CheckFits(PlanMemory(inputs), inputs);
    EXPECT_EQ(status.ok(), *c.says == '\0');
    EXPECT_THAT(status.message(), testing::HasSubstr(c.says));
  }
}

TEST(FreeMemoryBytes, IsSomething) { EXPECT_GT(FreeMemoryBytes(), int64_t{1} << 20); }

}  // namespace
}  // namespace remontoir
