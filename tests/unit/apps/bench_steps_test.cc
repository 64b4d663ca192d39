// Facts about what the steps of a profiled round multiplied.
#include "apps/bench_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace remontoir {
namespace {

constexpr auto kU4 = static_cast<size_t>(PanelFormat::kU4Half);
constexpr auto kS8 = static_cast<size_t>(PanelFormat::kS8);

std::vector<StepDescription> Steps() {
  return {
      {StepKind::kRows, RowSpace::kTokens, {}},
      {StepKind::kProducts,
       RowSpace::kTokens,
       {{PanelFormat::kU4Half, 10, 4, 30, 1}, {PanelFormat::kS8, 5, 4, 20, 2}}},
      {StepKind::kProducts, RowSpace::kTokens, {{PanelFormat::kF32, 1, 4, 16, 1}}},
      {StepKind::kExpertProducts, RowSpace::kExperts, {{PanelFormat::kU4Half, 6, 4, 80, 1}}},
      {StepKind::kLogits, RowSpace::kLogits, {{PanelFormat::kS8, 100, 4, 400, 2}}},
  };
}

// Two rounds of 8 tokens, logits of the last one.
RowCounts Counts() { return {.rows = {16, 32, 1}, .rounds = 2, .expert_share = 0.5}; }

TEST(BenchSteps, CountsEachFormatByWhatItsKernelWasAsked) {
  const ProductWork work = WorkOfKind(Steps(), StepKind::kProducts, Counts());
  EXPECT_EQ(work.ops_by_format[kU4], 2 * 16 * 40);
  EXPECT_EQ(work.ops_by_format[kS8], 2 * 16 * 20 * 2);
  EXPECT_EQ(work.ops(), 2 * 16 * (40 + 20 * 2 + 4));
}

TEST(BenchSteps, TheLeastWorkCountsFineActivationsOnce) {
  const ProductWork work = WorkOfKind(Steps(), StepKind::kProducts, Counts());
  EXPECT_EQ(work.work.int8_ops, 2 * 16 * (40 + 20));
  EXPECT_EQ(work.work.f32_ops, 2 * 16 * 4);
  EXPECT_EQ(work.work.weight_bytes, 2 * (30 + 20 + 16));
}

TEST(BenchSteps, ExpertsAreReadAsFarAsRowsUseThem) {
  const ProductWork work = WorkOfKind(Steps(), StepKind::kExpertProducts, Counts());
  EXPECT_EQ(work.ops(), 2 * 32 * 24);
  EXPECT_EQ(work.work.weight_bytes, 2 * 0.5 * 80);
}

TEST(BenchSteps, RoundsWithoutLogitsDontReadTheOutputMatrix) {
  const ProductWork work = WorkOfKind(Steps(), StepKind::kLogits, Counts());
  EXPECT_EQ(work.work.weight_bytes, 400);
  EXPECT_EQ(work.ops(), 2 * 100 * 4 * 2);
}

}  // namespace
}  // namespace remontoir
