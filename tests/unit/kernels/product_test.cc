// Facts about packed weights and matrix products, for every element type and instruction set.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/dequantise.h"
#include "kernels/kernel_table.h"
#include "kernels/weight_block.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

// Packed weights need 32-byte alignment.
struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t(64)); }
};

struct Packed {
  Packed(const ProductCase& c, const std::vector<std::byte>& weights, bool float32)
      : layout(PlanPacking(c.type, c.out_width, c.in_width, float32)),
        bytes(static_cast<std::byte*>(
            ::operator new[](static_cast<size_t>(layout.bytes()), std::align_val_t(64)))) {
    PackPanels(layout, c.type, weights.data(), 0, layout.panel_count(), bytes.get());
  }
  PackedLayout layout;
  std::unique_ptr<std::byte[], AlignedDelete> bytes;
};

// The product of `rows` rows (or pairs of rows) of `in` [.][in_width] with the whole matrix:
// [rows][out_width].
std::vector<float> Multiply(const KernelTable& table, const Packed& packed,
                            const std::vector<float>& in, int rows,
                            const int32_t* row_index = nullptr, bool pairs = false) {
  const PackedLayout& layout = packed.layout;
  std::vector<float> out(static_cast<size_t>(rows * layout.out_width), -1.0F);
  const auto run = [&](const auto* input, int64_t stride, const auto& kernels) {
    kernels[static_cast<size_t>(layout.format)]({
        .panels = packed.bytes.get(),
        .panel_bytes = layout.panel_bytes,
        .panel_count = static_cast<int>(layout.panel_count()),
        .columns = static_cast<int>(layout.out_width),
        .in_width = layout.in_width,
        .in = input,
        .in_stride = stride,
        .row_index = row_index,
        .row_pairs = pairs,
        .rows = rows,
        .out = out.data(),
        .out_stride = layout.out_width,
    });
  };
  if (IsFloatFormat(layout.format)) {
    run(in.data(), layout.in_width, table.float_product);
    return out;
  }
  const int64_t blocks = layout.in_width / kActivationBlock;
  const auto in_rows = static_cast<int64_t>(in.size()) / layout.in_width;
  std::vector<ActivationBlock> quantised(static_cast<size_t>(in_rows * blocks));
  for (int64_t r = 0; r < in_rows; ++r) {
    table.quantise_row(in.data() + r * layout.in_width, layout.in_width,
                       quantised.data() + r * blocks);
  }
  run(quantised.data(), blocks, table.quantised_product);
  return out;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

class ProductCasesTest : public testing::TestWithParam<ProductCase> {
 protected:
  const ProductCase& case_ = GetParam();
  std::vector<std::byte> weights_ = RandomWeights(case_.type, case_.out_width* case_.in_width, 5);
  std::vector<float> in_ = Normals(static_cast<size_t>(case_.rows * case_.in_width), 6);
};

TEST_P(ProductCasesTest, HasTheSameBitsInEveryTable) {
  for (const bool float32 : {false, true}) {
    const Packed packed(case_, weights_, float32);
    const auto expected = Bits(Multiply(ScalarKernels(), packed, in_, case_.rows));
    for (const KernelTable* table : RunnableTables()) {
      EXPECT_EQ(Bits(Multiply(*table, packed, in_, case_.rows)), expected) << table->name;
    }
  }
}

TEST_P(ProductCasesTest, OfARowIsTheSameAlone) {
  for (const bool float32 : {false, true}) {
    const Packed packed(case_, weights_, float32);
    const auto together = Bits(Multiply(BestKernels(), packed, in_, case_.rows));
    for (int32_t r = 0; r < case_.rows; ++r) {
      const auto alone = Bits(Multiply(BestKernels(), packed, in_, 1, &r));
      const auto begin = together.begin() + r * case_.out_width;
      EXPECT_EQ(alone, std::vector<uint32_t>(begin, begin + case_.out_width)) << "row " << r;
    }
  }
}

TEST_P(ProductCasesTest, OfAPanelIsTheSameAlone) {
  const Packed packed(case_, weights_, false);
  const auto together = Bits(Multiply(BestKernels(), packed, in_, case_.rows));
  for (int64_t c = 0; c < case_.out_width; ++c) {
    // The matrix of this one row of weights: a panel with one column.
    const int64_t row_bytes = RowBytes(case_.type, case_.in_width);
    const std::vector<std::byte> row(weights_.begin() + c * row_bytes,
                                     weights_.begin() + (c + 1) * row_bytes);
    const Packed single({case_.type, 1, case_.in_width, case_.rows}, row, false);
    const auto alone = Bits(Multiply(BestKernels(), single, in_, case_.rows));
    for (int64_t r = 0; r < case_.rows; ++r) {
      ASSERT_EQ(alone[static_cast<size_t>(r)],
                together[static_cast<size_t>(r * case_.out_width + c)])
          << "row " << r << ", column " << c;
    }
  }
}

// Against double precision, from the dequantised weights and (where they are) quantised
// activations.
TEST_P(ProductCasesTest, IsAccurate) {
  std::vector<float> dense(static_cast<size_t>(case_.out_width * case_.in_width));
  DequantiseRow(case_.type, weights_.data(), case_.out_width * case_.in_width, dense.data());
  for (const bool float32 : {false, true}) {
    const Packed packed(case_, weights_, float32);
    std::vector<float> in = in_;
    if (!IsFloatFormat(packed.layout.format)) {
      std::vector<ActivationBlock> blocks(in.size() / kActivationBlock);
      BestKernels().quantise_row(in.data(), static_cast<int64_t>(in.size()), blocks.data());
      for (size_t i = 0; i < in.size(); ++i) {
        const ActivationBlock& block = blocks[i / kActivationBlock];
        in[i] = block.scale * static_cast<float>(block.q[i % kActivationBlock]);
      }
    }
    const auto out = Multiply(BestKernels(), packed, in_, case_.rows);
    for (int64_t r = 0; r < case_.rows; ++r) {
      for (int64_t c = 0; c < case_.out_width; ++c) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t k = 0; k < case_.in_width; ++k) {
          const double term =
              static_cast<double>(in[static_cast<size_t>(r * case_.in_width + k)]) *
              static_cast<double>(dense[static_cast<size_t>(c * case_.in_width + k)]);
          sum += term;
          magnitude += std::fabs(term);
        }
        ASSERT_NEAR(out[static_cast<size_t>(r * case_.out_width + c)], sum, 1e-6 * magnitude)
            << "row " << r << ", column " << c << ", float32 " << float32;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ProductCasesTest, testing::ValuesIn(ProductCases()),
                         [](const auto& c) { return Name(c.param); });

TEST(Product, GathersRowsByIndex) {
  const ProductCase c = {DType::kQ4_K, 40, 512, 3};
  const auto weights = RandomWeights(c.type, c.out_width * c.in_width, 1);
  const auto in = Normals(static_cast<size_t>(c.rows * c.in_width), 2);
  for (const bool float32 : {false, true}) {
    const Packed packed(c, weights, float32);
    for (const KernelTable* table : RunnableTables()) {
      const auto plain = Multiply(*table, packed, in, c.rows);
      const std::vector<int32_t> index = {2, 0, 2, 1, 1, 1, 0};
      const auto gathered = Multiply(*table, packed, in, 7, index.data());
      for (size_t i = 0; i < index.size(); ++i) {
        for (size_t column = 0; column < 40; ++column) {
          ASSERT_EQ(gathered[i * 40 + column], plain[static_cast<size_t>(index[i]) * 40 + column]);
        }
      }
    }
  }
}

// Every remainder of the kernels' tiles, in order and gathered.
TEST(Product, OfAPairOfRowsIsTheSumOfTheirs) {
  constexpr int kPairs = 11;
  for (const DType type : kAllTypes) {
    const ProductCase c = {type, 23, 512, 2 * kPairs};
    const Packed packed(c, RandomWeights(type, c.out_width * c.in_width, 1), false);
    const auto in = Normals(static_cast<size_t>(c.rows * c.in_width), 2);
    const auto parts = Multiply(ScalarKernels(), packed, in, c.rows);
    std::vector<float> sums(static_cast<size_t>(kPairs * c.out_width));
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t first = i / 23 * 46 + i % 23;
      sums[i] = parts[first] + parts[first + 23];
    }
    for (const KernelTable* table : RunnableTables()) {
      for (int pairs = 1; pairs <= kPairs; ++pairs) {
        const std::vector<float> expected(sums.begin(), sums.begin() + pairs * c.out_width);
        ASSERT_EQ(Bits(Multiply(*table, packed, in, pairs, nullptr, true)), Bits(expected))
            << table->name << " " << Info(type).name << ", " << pairs << " pairs";
      }
      const std::vector<int32_t> index = {7, 0, 10, 7};
      const auto gathered = Multiply(*table, packed, in, 4, index.data(), true);
      for (size_t i = 0; i < gathered.size(); ++i) {
        ASSERT_EQ(gathered[i], sums[static_cast<size_t>(index[i / 23]) * 23 + i % 23])
            << table->name << " " << Info(type).name;
      }
    }
  }
}

class WeightBlocks : public testing::TestWithParam<DType> {};

// Packing must not round: q * scale + minimum is the dequantised weight, bit for bit.
TEST_P(WeightBlocks, HoldTheDequantisedWeightsExactly) {
  const DType type = GetParam();
  constexpr int64_t kCount = 4096;
  const auto bytes = RandomWeights(type, kCount, 3);
  std::vector<float> expected(kCount);
  DequantiseRow(type, bytes.data(), kCount, expected.data());
  for (int64_t i = 0; i < kCount; ++i) {
    WeightBlock block;
    DecodeWeightBlock(type, bytes.data(), i / 32, &block);
    const auto place = static_cast<size_t>(i % 32);
    const auto q = static_cast<float>(block.q[place]);
    ASSERT_EQ(q * block.scale[place / 16] + block.minimum[place / 16],
              expected[static_cast<size_t>(i)])
        << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WeightBlocks,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                         DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                         DType::kMXFP4, DType::kTQ1_0, DType::kTQ2_0, DType::kIQ1_S,
                                         DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS,
                                         DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S,
                                         DType::kNVFP4),
                         [](const auto& type) { return std::string(Info(type.param).name); });

// The largest products that 16-bit sums meet: every weight and activation at its extreme.
TEST(Product, SumsExtremesWithoutOverflow) {
  for (const DType type : kAllTypes) {
    if (Info(type).block_elements == 1) continue;
    const ProductCase c = {type, 16, 512, 2};
    for (const unsigned char fill : {0x00, 0x80, 0x88, 0x7f, 0xff}) {
      auto weights = RandomWeights(type, c.out_width * c.in_width, 1);
      std::memset(weights.data(), fill, weights.size());
      // Scales stay finite where fill makes NaN.
      const auto size = static_cast<size_t>(Info(type).block_bytes);
      for (size_t b = 0; b < weights.size(); b += size) {
        for (size_t i = 0; i < 2; ++i) SetHalfScale(type, &weights[b], i, FloatToHalf(0.37F));
        if (type == DType::kMXFP4) weights[b] = std::byte{124};
      }
      const Packed packed(c, weights, false);
      const std::vector<float> in = [] {
        std::vector<float> values(1024, 1.0F);
        for (size_t i = 512; i < values.size(); ++i) values[i] = i % 3 == 0 ? 1.0F : -1.0F;
        return values;
      }();
      const auto expected = Bits(Multiply(ScalarKernels(), packed, in, 2));
      for (const KernelTable* table : RunnableTables()) {
        EXPECT_EQ(Bits(Multiply(*table, packed, in, 2)), expected)
            << table->name << " " << Info(type).name << " fill " << int{fill};
      }
    }
  }
}

}  // namespace
}  // namespace remontoir
