// `bench attention`: what its masks compute, and that every row of the report is there.
#include "apps/bench_attention_masked.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/kernel_cases.h"

namespace remontoir {
namespace {

CapturedAttention RandomLayer(int32_t tokens) {
  CapturedAttention data;
  data.tokens = tokens;
  data.heads = 4;
  data.kv_heads = 2;
  data.key_width = 64;
  data.value_width = 64;
  data.queries = Normals(static_cast<size_t>(tokens * 4 * 64), 1);
  data.keys = Normals(static_cast<size_t>(tokens * 2 * 64), 2);
  data.values = Normals(static_cast<size_t>(tokens * 2 * 64), 3);
  return data;
}

TEST(MeasureMasked, HasEveryTypeWidthBlockAndDensity) {
  if (Avx2Kernels() == nullptr) GTEST_SKIP() << "no peak is known of scalar kernels";
  const auto report = MeasureMasked(RandomLayer(2100), *Avx2Kernels(), 1);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->keys, 2048);
  EXPECT_EQ(report->rows, 256);
  EXPECT_EQ(report->heads, 2);
  EXPECT_EQ(report->exact.size(), 4U);
  ASSERT_EQ(report->masked.size(), 80U);
  const double wanted[] = {0.05, 0.1, 0.25, 0.5};
  for (size_t i = 0; i < report->masked.size(); ++i) {
    const MaskedSpeed& row = report->masked[i];
    // Rows of a mask share blocks, so that the density of few rows scatters.
    EXPECT_NEAR(row.density, wanted[i % 4], 0.3 * wanted[i % 4] + 0.06) << i;
    EXPECT_GT(row.effective.median, 0);
    // Half of the pairs at the diagonal are of keys to come, and a mask keeps the diagonal.
    EXPECT_LT(row.pair_density, row.density) << i;
    EXPECT_NEAR(row.effective_of_pairs.median / row.effective.median,
                row.pair_density / row.density, 1e-9);
  }
  ASSERT_NE(report->Worst(128, 128), nullptr);
  EXPECT_EQ(report->Worst(128, 128)->keys_per_block, 128);
  EXPECT_LE(report->Worst(16, 64)->keys_per_block, 64);
  EXPECT_EQ(report->Worst(1, 8), nullptr);
}

TEST(MeasureMasked, NeedsAStretchOfTokensAndAPeak) {
  EXPECT_EQ(
      MeasureMasked(RandomLayer(1000), BestKernels(), 1).status().code(),
      BestKernels().name == "scalar" ? StatusCode::kUnsupported : StatusCode::kInvalidArgument);
  EXPECT_EQ(MeasureMasked(RandomLayer(1024), ScalarKernels(), 1).status().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace remontoir
