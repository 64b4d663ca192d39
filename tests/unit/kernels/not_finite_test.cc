// Every table does with NaN, infinity and the ends of float32 what the scalar kernels do. Which NaN
// it is isn't promised, only where.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tensor/kv_layout.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/panel_formats.h"
#include "tests/support/row_kernels.h"

namespace remontoir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

// Deviates with a rare one that isn't a common number; none where the seed says so.
std::vector<float> Odd(size_t count, uint64_t seed) {
  constexpr float kOdd[] = {NAN, kInf, -kInf, kMax, -kMax, 1e-42F, -1e-42F, -0.0F, 88.5F, -103.0F};
  auto values = Normals(count, seed);
  const CounterRandom random(seed, 3);
  const uint64_t every = 3 + random.Bits(0) % 40;
  for (size_t i = 0; i < count; ++i) {
    if (random.Bits(2 * i + 1) % every == 0) {
      values[i] = kOdd[random.Bits(2 * i + 2) % std::size(kOdd)];
    }
  }
  return values;
}

bool IsNan(uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); }

testing::AssertionResult SameOrBothNan(const std::vector<uint32_t>& a,
                                       const std::vector<uint32_t>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "other sizes";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (IsNan(a[i]) && IsNan(b[i]))) continue;
    return testing::AssertionFailure() << "value " << i << ": " << std::bit_cast<float>(a[i])
                                       << " and " << std::bit_cast<float>(b[i]);
  }
  return testing::AssertionSuccess();
}

class OddRows : public testing::TestWithParam<RowKernel> {};

TEST_P(OddRows, AreTheSameInEveryTable) {
  for (int width = 1; width <= 200; width += width < 40 ? 1 : 7) {
    GuardedArrays arrays(GuardSide::kAtBegin);
    const auto expected = GetParam().run({ScalarKernels(), arrays, width, Odd});
    for (const KernelTable* table : RunnableTables()) {
      EXPECT_TRUE(SameOrBothNan(GetParam().run({*table, arrays, width, Odd}), expected))
          << table->name << ", width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OddRows, testing::ValuesIn(kRowKernels),
                         [](const auto& kernel) { return std::string(kernel.param.name); });

class OddProducts : public testing::TestWithParam<DType> {
 protected:
  template <class Input>
  static std::vector<uint32_t> Multiply(const KernelTable& table, const PackedLayout& layout,
                                        const std::byte* panels, const std::vector<Input>& in,
                                        int rows) {
    std::vector<float> out(static_cast<size_t>(kRows * layout.out_width), 0.5F);
    RunProduct(table, layout.format,
               PanelProduct<Input>{.panels = panels,
                                   .panel_bytes = layout.panel_bytes,
                                   .panel_count = static_cast<int>(layout.panel_count()),
                                   .columns = static_cast<int>(layout.out_width),
                                   .in_width = layout.in_width,
                                   .in = in.data(),
                                   .in_stride = std::ssize(in) / kRows,
                                   .row_index = nullptr,
                                   .rows = rows,
                                   .out = out.data(),
                                   .out_stride = layout.out_width});
    return BitsOf(out);
  }

  template <class Input>
  static void Expect(const PackedLayout& layout, const std::vector<std::byte>& packed,
                     const std::vector<Input>& in, int rows) {
    GuardedArrays arrays(GuardSide::kAtBegin);  // aligned
    const std::byte* panels = arrays.In(packed);
    const auto expected = Multiply(ScalarKernels(), layout, panels, in, rows);
    for (const KernelTable* table : RunnableTables()) {
      EXPECT_TRUE(SameOrBothNan(Multiply(*table, layout, panels, in, rows), expected))
          << table->name << ", " << rows << " rows";
    }
  }

  static void ExpectTheSame(const std::vector<std::byte>& weights, bool float32,
                            const std::vector<float>& in) {
    const PackedLayout layout = PlanPacking(GetParam(), kOutWidth, WidthOf(), float32);
    const auto packed = Packed(layout, GetParam(), weights);
    for (const int rows : {0, 1, 2, 7, kRows}) {
      if (IsFloatFormat(layout.format)) {
        Expect(layout, packed, in, rows);
      } else {
        Expect(layout, packed, QuantisedRows(in), rows);
      }
    }
  }

  static int64_t WidthOf() { return 2 * std::max(Info(GetParam()).block_elements, 20); }

  static constexpr int kRows = 33;
  static constexpr int64_t kOutWidth = 19;
};

TEST_P(OddProducts, OfOddActivationsAreTheSameInEveryTable) {
  const auto weights = RandomWeights(GetParam(), kOutWidth * WidthOf(), 3);
  const auto in = Odd(static_cast<size_t>(kRows * WidthOf()), 4);
  for (const bool float32 : {false, true}) ExpectTheSame(weights, float32, in);
}

// Any bytes: scales that are NaN or infinite, as a file from outside may have them.
TEST_P(OddProducts, OfAnyWeightBytesAreTheSameInEveryTable) {
  const CounterRandom random(5, 6);
  std::vector<std::byte> weights(static_cast<size_t>(kOutWidth * RowBytes(GetParam(), WidthOf())));
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = random.Bits(2 * i) % 5 == 0 ? std::byte{0xff}
                                             : static_cast<std::byte>(random.Bits(2 * i + 1));
  }
  const auto in = Normals(static_cast<size_t>(kRows * WidthOf()), 7);
  for (const bool float32 : {false, true}) ExpectTheSame(weights, float32, in);
}

TEST_P(OddProducts, OfNoRowsAreNothing) {
  const auto weights = RandomWeights(GetParam(), kOutWidth * WidthOf(), 3);
  const PackedLayout layout = PlanPacking(GetParam(), kOutWidth, WidthOf(), true);
  const auto packed = Packed(layout, GetParam(), weights);
  GuardedArrays arrays(GuardSide::kAtBegin);
  const std::vector<float> in(static_cast<size_t>(kRows * WidthOf()), 1.0F);
  for (const KernelTable* table : RunnableTables()) {
    for (const uint32_t bits : Multiply(*table, layout, arrays.In(packed), in, 0)) {
      EXPECT_EQ(std::bit_cast<float>(bits), 0.5F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OddProducts, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return std::string(Info(type.param).name); });

class OddAttention : public testing::TestWithParam<DType> {
 protected:
  static constexpr int kRows = 13;

  struct Arrays {
    std::vector<std::vector<float>> queries;
    std::vector<AttentionRow> rows;
    std::vector<std::byte> page;
    std::vector<uint32_t> Run(const KernelTable& table, DType type, int width, float cap,
                              const std::byte* values) const {
      std::vector<SoftmaxState> states(kRows);
      std::vector<float> sums(static_cast<size_t>(kRows * width));
      const KeyBlock block = {page.data(), values, 0};
      table.attention_partial[static_cast<size_t>(type)]({.rows = rows.data(),
                                                          .row_count = kRows,
                                                          .blocks = &block,
                                                          .block_count = 1,
                                                          .key_width = width,
                                                          .value_width = width,
                                                          .scale = 0.3F,
                                                          .soft_cap = cap,
                                                          .states = states.data(),
                                                          .sums = sums.data()});
      std::vector<float> out = sums;
      for (size_t r = 0; r < kRows; ++r) {
        float* sum = out.data() + r * static_cast<size_t>(width);
        // Joined with itself: two partials that may both be odd.
        SoftmaxState state = states[r];
        table.merge_partial(states[r], sums.data() + r * static_cast<size_t>(width), width, &state,
                            sum);
        table.finish_rows(&state, sum, 1, width, nullptr, sum);
        out.push_back(state.max);
        out.push_back(state.sum);
      }
      return BitsOf(out);
    }
  };
};

TEST_P(OddAttention, IsTheSameInEveryTable) {
  const DType type = GetParam();
  for (const int width : {5, 13, 32, 64, 80}) {
    const KvLayout layout(
        {{.kv_heads = 1, .key_width = width, .value_width = width, .type = type}});
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Arrays arrays;
      arrays.page.resize(static_cast<size_t>(layout.page_bytes()), std::byte{0xff});
      std::byte* values = arrays.page.data() + layout.value_offset(0, 0);
      const auto make = seed % 3 == 0 ? Odd : Normals;  // some with odd queries alone
      const auto count = static_cast<size_t>(width);
      for (int k = 0; k < kKvPageTokens; ++k) {
        const uint64_t key_seed = 100 * seed + static_cast<uint64_t>(k);
        ScalarKernels().store_key(make(count, key_seed).data(), width, type, k, arrays.page.data());
        ScalarKernels().store_value((seed % 3 == 1 ? Odd : make)(count, 50 + key_seed).data(),
                                    width, type, k, values);
      }
      for (int32_t r = 0; r < kRows; ++r) {
        arrays.queries.push_back(Odd(count, seed * 1000 + static_cast<uint64_t>(r)));
      }
      for (int32_t r = 0; r < kRows; ++r) {
        arrays.rows.push_back({arrays.queries[static_cast<size_t>(r)].data(), r % 4, 50 + r});
      }
      for (const float cap : {0.0F, 2.0F}) {
        const auto expected = arrays.Run(ScalarKernels(), type, width, cap, values);
        for (const KernelTable* table : RunnableTables()) {
          EXPECT_TRUE(SameOrBothNan(arrays.Run(*table, type, width, cap, values), expected))
              << table->name << ", width " << width << ", seed " << seed << ", cap " << cap;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OddAttention, testing::ValuesIn(KvTypes()),
                         [](const auto& type) { return std::string(Info(type.param).name); });

}  // namespace
}  // namespace remontoir
