// Products, packing and dequantisation between forbidden pages: no access outside their arrays.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "kernels/dequantise.h"
#include "kernels/routing.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/panel_formats.h"

namespace remontoir {
namespace {

constexpr int kRowsMax = 17;  // beyond every tile height
constexpr uint32_t kUntouched = 0xffffffff;

// Products of one matrix with up to kRowsMax rows, whose rows have gaps between them.
template <class Input>
class GuardedProduct {
 public:
  GuardedProduct(PanelFormat format, int64_t out_width, int64_t in_width)
      : type_(kTypeOfFormat[static_cast<size_t>(format)]),
        layout_(PlanPacking(type_, out_width, in_width, false)) {
    packed_ = Packed(layout_, type_, RandomWeights(type_, out_width * in_width, 7));
    constexpr int64_t kStep = std::is_same_v<Input, float> ? 1 : kActivationBlock;
    width_ = in_width / kStep;
    stride_ = width_ + 1;
    const auto values = Normals(static_cast<size_t>(kRowsMax * stride_ * kStep), 8);
    if constexpr (std::is_same_v<Input, float>) {
      in_ = values;
    } else {
      in_ = QuantisedRows(values);
    }
    GuardedArrays plain(GuardSide::kAtBegin);
    expected_ = Run(ScalarKernels(), kRowsMax, nullptr, plain);
  }

  // Half as many rows, each the sum of two.
  void ExpectPairs(const KernelTable& table, GuardSide side, int pairs) const {
    GuardedArrays arrays(side);
    const auto out = Run(table, pairs, nullptr, arrays, true);
    for (int64_t r = 0; r < pairs; ++r) {
      for (int64_t c = 0; c < layout_.out_width; ++c) {
        const int64_t first = 2 * r * out_stride() + c;
        const auto at = [&](int64_t i) {
          return std::bit_cast<float>(expected_[static_cast<size_t>(i)]);
        };
        ASSERT_EQ(out[static_cast<size_t>(r * out_stride() + c)],
                  std::bit_cast<uint32_t>(at(first) + at(first + out_stride())));
      }
    }
    ASSERT_TRUE(arrays.surroundings_intact());
  }

  void Expect(const KernelTable& table, GuardSide side, int rows, bool gather) const {
    std::vector<int32_t> index(static_cast<size_t>(rows));
    for (int32_t r = 0; r < rows; ++r) {
      index[static_cast<size_t>(r)] = !gather ? r : r % 2 == 0 ? rows - 1 : r / 2;
    }
    GuardedArrays arrays(side);
    const auto out = Run(table, rows, gather ? &index : nullptr, arrays);
    for (size_t r = 0; r < index.size(); ++r) {
      const auto from = expected_.begin() + index[r] * out_stride();
      const std::vector<uint32_t> wanted(from, from + layout_.out_width);
      const auto row = out.begin() + static_cast<int64_t>(r) * out_stride();
      ASSERT_EQ(std::vector<uint32_t>(row, row + layout_.out_width), wanted) << "row " << r;
      const int64_t left = std::min<int64_t>(out_stride(), out.end() - row);
      for (int64_t c = layout_.out_width; c < left; ++c) ASSERT_EQ(row[c], kUntouched);
    }
    ASSERT_TRUE(arrays.surroundings_intact());
  }

 private:
  int64_t out_stride() const { return layout_.out_width + 3; }

  std::vector<uint32_t> Run(const KernelTable& table, int rows, const std::vector<int32_t>* index,
                            GuardedArrays& arrays, bool pairs = false) const {
    // The last row ends where its last value does.
    const auto in_end = in_.begin() + ((pairs ? 2 : 1) * rows - 1) * stride_ + width_;
    const auto out_count = static_cast<size_t>((rows - 1) * out_stride() + layout_.out_width);
    auto* out = arrays.Out<float>(out_count);
    RunProduct(table, layout_.format,
               PanelProduct<Input>{
                   .panels = arrays.In(packed_),
                   .panel_bytes = layout_.panel_bytes,
                   .panel_count = static_cast<int>(layout_.panel_count()),
                   .columns = static_cast<int>(layout_.out_width),
                   .in_width = layout_.in_width,
                   .in = arrays.In(std::vector<Input>(in_.begin(), in_end)),
                   .in_stride = stride_,
                   .row_index = index != nullptr ? arrays.In(*index) : nullptr,
                   .row_pairs = pairs,
                   .rows = rows,
                   .out = out,
                   .out_stride = out_stride(),
               });
    return BitsOf(out, out_count);
  }

  DType type_;
  PackedLayout layout_;
  std::vector<std::byte> packed_;
  int64_t width_ = 0;
  int64_t stride_ = 0;
  std::vector<Input> in_;
  std::vector<uint32_t> expected_;  // [kRowsMax][out_stride()]
};

class GuardedFormat : public testing::TestWithParam<int> {
 protected:
  template <class Input>
  void Expect(int64_t out_width, int64_t in_width) {
    const auto format = static_cast<PanelFormat>(GetParam());
    const GuardedProduct<Input> product(format, out_width, in_width);
    for (const KernelTable* table : RunnableTables()) {
      for (const GuardSide side : kGuardSides) {
        for (int rows = 1; rows <= kRowsMax; ++rows) {
          SCOPED_TRACE(std::string(table->name) + ", " + Name(side) + ", " + std::to_string(rows) +
                       " rows of " + std::to_string(out_width) + "x" + std::to_string(in_width));
          product.Expect(*table, side, rows, false);
          product.Expect(*table, side, rows, true);
          if (rows % 2 == 0) product.ExpectPairs(*table, side, rows / 2);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

TEST_P(GuardedFormat, IsMultipliedInsideItsArrays) {
  const auto format = static_cast<PanelFormat>(GetParam());
  const int64_t block = Info(kTypeOfFormat[static_cast<size_t>(format)]).block_elements;
  for (const int64_t out_width : {1, 7, 8, 16, 25, 33, 47}) {
    for (const int64_t blocks : {1, 2, 3}) {
      if (IsFloatFormat(format)) {
        Expect<float>(out_width, 6 * blocks + 1);
      } else {
        Expect<ActivationBlock>(out_width, blocks * block);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GuardedFormat, testing::Range(0, kPanelFormatCount),
                         [](const auto& format) {
                           return std::string(
                               Info(kTypeOfFormat[static_cast<size_t>(format.param)]).name);
                         });

class GuardedType : public testing::TestWithParam<DType> {};

TEST_P(GuardedType, IsDequantisedAndPackedInsideItsArrays) {
  const DType type = GetParam();
  for (const int64_t out_width : {1, 15, 16, 19}) {
    const int64_t in_width = 3 * Info(type).block_elements;
    const auto weights = RandomWeights(type, out_width * in_width, 11);
    for (const GuardSide side : kGuardSides) {
      GuardedArrays arrays(side);
      const std::byte* rows = arrays.In(weights);
      const auto count = static_cast<size_t>(out_width * in_width);
      auto* dense = arrays.Out<float>(count);
      DequantiseRow(type, rows, out_width * in_width, dense);
      std::vector<float> expected(count);
      DequantiseRow(type, weights.data(), out_width * in_width, expected.data());
      EXPECT_EQ(BitsOf(dense, count), BitsOf(expected));
      for (const bool float32 : {false, true}) {
        const PackedLayout layout = PlanPacking(type, out_width, in_width, float32);
        auto* packed = arrays.Out<std::byte>(static_cast<size_t>(layout.bytes()));
        PackPanels(layout, type, rows, 0, layout.panel_count(), packed);
        EXPECT_EQ(Copied(packed, static_cast<size_t>(layout.bytes())), [&] {
          std::vector<std::byte> plain(static_cast<size_t>(layout.bytes()));
          PackPanels(layout, type, weights.data(), 0, layout.panel_count(), plain.data());
          return plain;
        }());
      }
      EXPECT_TRUE(arrays.surroundings_intact()) << Name(side);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GuardedType, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return std::string(Info(type.param).name); });

TEST(GuardedRouting, StaysInsideItsArrays) {
  for (const int experts : {1, 3, 8, 17}) {
    for (const GuardSide side : kGuardSides) {
      GuardedArrays arrays(side);
      const int used = std::min(experts, 2);
      const auto count = static_cast<size_t>(experts);
      const int groups = experts == 8 ? 4 : 1;
      RouteRow({.experts = experts,
                .used = used,
                .score = RouterScore::kSigmoid,
                .soft_cap = 5,
                .groups = groups,
                .groups_used = (groups + 1) / 2,
                .bias = arrays.In(Normals(count, 4))},
               arrays.InOut(Normals(count, 3)), arrays.Out<int32_t>(static_cast<size_t>(used)),
               arrays.Out<float>(static_cast<size_t>(used)));
      EXPECT_TRUE(arrays.surroundings_intact());
    }
  }
}

// The pages do what the tests of this kind count on.
TEST(GuardedBufferDeathTest, AnAccessOutsideEndsTheProgram) {
  const auto touch = [](GuardSide side, int64_t place, bool write) {
    GuardedArrays arrays(side);
    const std::vector<float> values(5, 1.0F);
    volatile float* at = write ? arrays.InOut(values) : const_cast<float*>(arrays.In(values));
    if (write) at[place] = 2;
    return at[place] == 0;
  };
  EXPECT_DEATH(touch(GuardSide::kAtEnd, 5, false), "");
  EXPECT_DEATH(touch(GuardSide::kAtBegin, -1, false), "");
  EXPECT_DEATH(touch(GuardSide::kAtEnd, 5, true), "");
  EXPECT_FALSE(touch(GuardSide::kAtEnd, 4, true));
  EXPECT_FALSE(touch(GuardSide::kAtBegin, 0, false));
}

TEST(GuardedBuffer, NoticesWritesBesideItsFreeEnd) {
  for (const GuardSide side : kGuardSides) {
    GuardedBuffer buffer(12, side);
    EXPECT_TRUE(buffer.surroundings_intact());
    buffer.data()[side == GuardSide::kAtEnd ? -1 : 12] = std::byte{1};
    EXPECT_FALSE(buffer.surroundings_intact());
  }
}

}  // namespace
}  // namespace remontoir
