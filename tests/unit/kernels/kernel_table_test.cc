// Which tables there are, and which of them the product chooses among.
#include "kernels/kernel_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

TEST(KernelTables, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_TRUE(names.insert(table->name).second) << table->name;
  }
}

TEST(KernelTables, ThroughSimdeAreNeverChosen) {
  for (const KernelTable* table : {AvxVnniKernelsThroughSimde(), Avx512KernelsThroughSimde()}) {
    if (table == nullptr) continue;
    EXPECT_EQ(KernelsByName(table->name), nullptr) << table->name;
    EXPECT_NE(&BestKernels(), table);
  }
}

// Otherwise a comparison with them would compare others' bits.
TEST(KernelTables, ThroughSimdeHaveKernelsOfTheirOwn) {
  for (const KernelTable* table : {AvxVnniKernelsThroughSimde(), Avx512KernelsThroughSimde()}) {
    if (table == nullptr) continue;
    for (const KernelTable* other : RunnableTables()) {
      if (other == table) continue;
      for (int f = 0; f < kPanelFormatCount; ++f) {
        const auto kernel = table->quantised_product[static_cast<size_t>(f)];
        if (kernel == nullptr) continue;
        EXPECT_NE(kernel, other->quantised_product[static_cast<size_t>(f)]) << other->name;
      }
      if (table != Avx512KernelsThroughSimde()) continue;
      for (int f = 0; f < kPanelFormatCount; ++f) {
        const auto kernel = table->float_product[static_cast<size_t>(f)];
        if (kernel == nullptr) continue;
        EXPECT_NE(kernel, other->float_product[static_cast<size_t>(f)]) << other->name;
      }
      for (int t = 0; t < kDTypeCount; ++t) {
        const auto kernel = table->attention_partial[static_cast<size_t>(t)];
        if (kernel == nullptr) continue;
        EXPECT_NE(kernel, other->attention_partial[static_cast<size_t>(t)]) << other->name;
      }
      EXPECT_NE(table->rms_norm, other->rms_norm) << other->name;
    }
  }
}

}  // namespace
}  // namespace remontoir
