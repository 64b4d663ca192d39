// Facts about the table of the kernel bench.
#include "apps/bench_kernel_cases.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "apps/bench_grouped_cases.h"

namespace remontoir {
namespace {

TEST(BenchKernelCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const KernelCase& kernel : KernelCases()) {
    EXPECT_TRUE(names.insert(kernel.Name()).second) << kernel.Name();
  }
}

TEST(BenchKernelCases, EveryWeightTypeHasItsMicroKernelAndProducts) {
  std::multiset<std::string> products, micro_kernels;
  for (const KernelCase& kernel : KernelCases()) {
    if (kernel.operation == "product") products.insert(kernel.type);
    if (kernel.operation == "micro_kernel") micro_kernels.insert(kernel.type);
  }
  for (int type = 0; type < kDTypeCount; ++type) {
    const std::string name(Info(static_cast<DType>(type)).name);
    EXPECT_EQ(micro_kernels.count(name), 1u) << name;
    EXPECT_GE(products.count(name), 4u) << name;
  }
}

TEST(BenchKernelCases, EveryKvTypeOfTheTableHasItsAttention) {
  std::set<std::string> timed;
  for (const KernelCase& kernel : KernelCases()) {
    if (kernel.operation == "attention") timed.insert(kernel.type);
  }
  std::set<std::string> known;
  for (int type = 0; type < kDTypeCount; ++type) {
    if (ScalarKernels().attention_partial[static_cast<size_t>(type)] == nullptr) continue;
    known.insert(std::string(Info(static_cast<DType>(type)).name));
  }
  EXPECT_EQ(timed, known);
}

TEST(BenchKernelCases, GroupedProductsHaveADenseTwinOfEqualWork) {
  const std::vector<KernelCase> cases = GroupedCases();
  int pairs = 0;
  for (const KernelCase& grouped : cases) {
    if (grouped.operation != kGroupedProduct) continue;
    for (const KernelCase& dense : cases) {
      if (dense.operation != kDenseProduct || dense.type != grouped.type ||
          dense.shape != grouped.shape) {
        continue;
      }
      ++pairs;
      EXPECT_EQ(dense.int8_ops, grouped.int8_ops);
      EXPECT_EQ(dense.f32_ops, grouped.f32_ops);
      EXPECT_EQ(dense.bytes, grouped.bytes);
    }
  }
  EXPECT_EQ(pairs, 6 * 3);
}

TEST(BenchKernelCases, GroupedProductsRun) {
  const KernelCase kernel = GroupedCases()[1];
  ASSERT_EQ(kernel.operation, kGroupedProduct);
  const std::function<void()> call = kernel.prepare(BestKernels());
  ASSERT_NE(call, nullptr);
  call();
}

}  // namespace
}  // namespace remontoir
