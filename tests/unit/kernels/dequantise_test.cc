// Facts about dequantisation: the reference vectors, bit for bit.
#include "kernels/dequantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/support/npy.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

class DequantiseVectors : public testing::TestWithParam<DType> {};

TEST_P(DequantiseVectors, MatchTheReferenceBitForBit) {
  const DType type = GetParam();
  const std::string stem = TestData("dequant/" + std::string(Info(type).name));
  const auto raw = ReadNpy<uint8_t>(stem + ".raw.npy");
  const auto expected = ReadNpy<float>(stem + ".f32.npy");
  const auto elements = static_cast<int64_t>(expected.values.size());
  ASSERT_EQ(static_cast<int64_t>(raw.values.size()), RowBytes(type, elements));

  std::vector<float> out(expected.values.size());
  DequantiseRow(type, reinterpret_cast<const std::byte*>(raw.values.data()), elements, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected.values[i]))
        << "value " << i << ": " << out[i] << ", reference " << expected.values[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DequantiseVectors,
                         testing::Values(DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                         DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,
                                         DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                         DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4,
                                         DType::kTQ1_0, DType::kTQ2_0, DType::kIQ1_S, DType::kIQ1_M,
                                         DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
                                         DType::kIQ3_XXS, DType::kIQ3_S, DType::kNVFP4),
                         [](const auto& type) { return std::string(Info(type.param).name); });

TEST(Dequantise, CopiesF32AsItIs) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, -3e38f};
  std::vector<float> out(values.size());
  DequantiseRow(DType::kF32, reinterpret_cast<const std::byte*>(values.data()), 4, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(values[i]));
  }
}

TEST(Dequantise, ReadsBlocksAtOddAddresses) {
  const auto raw = ReadNpy<uint8_t>(TestData("dequant/Q6_K.raw.npy"));
  const auto expected = ReadNpy<float>(TestData("dequant/Q6_K.f32.npy"));
  std::vector<uint8_t> shifted = {0};
  shifted.insert(shifted.end(), raw.values.begin(), raw.values.end());
  std::vector<float> out(expected.values.size());
  DequantiseRow(DType::kQ6_K, reinterpret_cast<const std::byte*>(shifted.data() + 1),
                static_cast<int64_t>(out.size()), out.data());
  EXPECT_EQ(out, expected.values);
}

// A block with a NaN scale can reach us from a file: its values are NaN, never a crash.
TEST(Dequantise, ANaNScaleGivesNaNValues) {
  std::vector<std::byte> block(static_cast<size_t>(RowBytes(DType::kQ8_0, 32)), std::byte{3});
  block[0] = std::byte{0x00};
  block[1] = std::byte{0x7e};
  std::vector<float> out(32);
  DequantiseRow(DType::kQ8_0, block.data(), 32, out.data());
  for (const float value : out) EXPECT_NE(value, value);
}

}  // namespace
}  // namespace remontoir
