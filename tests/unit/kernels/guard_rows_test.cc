// Row kernels and KV stores between forbidden pages: no access outside their arrays, and the same
// bits there as the scalar kernels give anywhere.
#include <gtest/gtest.h>

#include "tensor/kv_layout.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/row_kernels.h"

namespace remontoir {
namespace {

class GuardedRows : public testing::TestWithParam<RowKernel> {};

TEST_P(GuardedRows, AreWorkedOnInsideTheirArrays) {
  std::vector<int> widths = {576, 1023, 1025, 1536, 2051};
  for (int width = 1; width <= 70; ++width) widths.push_back(width);
  for (const int width : widths) {
    GuardedArrays anywhere(GuardSide::kAtBegin);
    const auto expected = GetParam().run({ScalarKernels(), anywhere, width, Normals});
    for (const KernelTable* table : RunnableTables()) {
      for (const GuardSide side : kGuardSides) {
        GuardedArrays arrays(side);
        ASSERT_EQ(GetParam().run({*table, arrays, width, Normals}), expected)
            << table->name << ", " << Name(side) << ", width " << width;
        ASSERT_TRUE(arrays.surroundings_intact()) << table->name << ", width " << width;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GuardedRows, testing::ValuesIn(kRowKernels),
                         [](const auto& kernel) { return std::string(kernel.param.name); });

// Tests of KV kernels take every type that a table has attention for.
class GuardedStores : public testing::TestWithParam<DType> {};

TEST_P(GuardedStores, WriteInsideThePage) {
  const DType type = GetParam();
  for (const int width : {1, 3, 7, 8, 20, 32, 45, 64, 80, 96, 128, 256}) {
    const KvLayout layout(
        {{.kv_heads = 1, .key_width = width, .value_width = width, .type = type}});
    const auto bytes = static_cast<size_t>(layout.value_offset(0, 0) - layout.key_offset(0, 0));
    const auto row = Normals(static_cast<size_t>(width), static_cast<uint64_t>(width));
    for (const bool keys : {true, false}) {
      const auto store = [&](const KernelTable& table, int slot, GuardedArrays& arrays) {
        auto* part = arrays.Out<std::byte>(bytes);
        (keys ? table.store_key : table.store_value)(arrays.In(row), width, type, slot, part);
        return Copied(part, bytes);
      };
      for (const int slot : {0, 1, 15, 16, 37, kKvPageTokens - 1}) {
        GuardedArrays anywhere(GuardSide::kAtBegin);
        const auto expected = store(ScalarKernels(), slot, anywhere);
        for (const KernelTable* table : RunnableTables()) {
          for (const GuardSide side : kGuardSides) {
            GuardedArrays arrays(side);
            ASSERT_EQ(store(*table, slot, arrays), expected)
                << table->name << ", width " << width << ", slot " << slot;
            ASSERT_TRUE(arrays.surroundings_intact()) << table->name << ", width " << width;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GuardedStores, testing::ValuesIn(KvTypes()),
                         [](const auto& type) { return std::string(Info(type.param).name); });

}  // namespace
}  // namespace remontoir
