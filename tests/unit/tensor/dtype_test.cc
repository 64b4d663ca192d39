// Facts about element types and GGML's numbers for them.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include "tensor/block_layouts.h"

namespace remontoir {
namespace {

TEST(DType, EveryTypeHasItsGgmlNumber) {
  struct Case {
    uint32_t number;
    DType type;
    std::string_view name;
  };
  constexpr Case kCases[] = {
      {0, DType::kF32, "F32"},          {1, DType::kF16, "F16"},
      {2, DType::kQ4_0, "Q4_0"},        {3, DType::kQ4_1, "Q4_1"},
      {6, DType::kQ5_0, "Q5_0"},        {7, DType::kQ5_1, "Q5_1"},
      {8, DType::kQ8_0, "Q8_0"},        {10, DType::kQ2_K, "Q2_K"},
      {11, DType::kQ3_K, "Q3_K"},       {12, DType::kQ4_K, "Q4_K"},
      {13, DType::kQ5_K, "Q5_K"},       {14, DType::kQ6_K, "Q6_K"},
      {20, DType::kIQ4_NL, "IQ4_NL"},   {23, DType::kIQ4_XS, "IQ4_XS"},
      {30, DType::kBF16, "BF16"},       {39, DType::kMXFP4, "MXFP4"},
      {34, DType::kTQ1_0, "TQ1_0"},     {35, DType::kTQ2_0, "TQ2_0"},
      {19, DType::kIQ1_S, "IQ1_S"},     {29, DType::kIQ1_M, "IQ1_M"},
      {16, DType::kIQ2_XXS, "IQ2_XXS"}, {17, DType::kIQ2_XS, "IQ2_XS"},
      {22, DType::kIQ2_S, "IQ2_S"},     {18, DType::kIQ3_XXS, "IQ3_XXS"},
      {21, DType::kIQ3_S, "IQ3_S"},     {40, DType::kNVFP4, "NVFP4"},
  };
  static_assert(std::size(kCases) == kDTypeCount);
  for (const Case& c : kCases) {
    EXPECT_EQ(DTypeFromGgml(c.number), c.type) << c.name;
    EXPECT_EQ(Info(c.type).name, c.name);
    EXPECT_EQ(GgmlTypeName(c.number), c.name);
  }
}

TEST(DType, TypesOfOtherBuildsHaveANameButNoDType) {
  struct Case {
    uint32_t number;
    std::string_view name;
  };
  for (const Case& c :
       {Case{4, "Q4_2"}, Case{5, "Q4_3"}, Case{15, "Q8_K"}, Case{26, "I32"}, Case{31, "Q4_0_4_4"},
        Case{38, "IQ4_NL_8_8"}, Case{41, "Q1_0"}, Case{42, "Q2_0"}, Case{43, "unknown"},
        Case{9999, "unknown"}, Case{0xffff'ffff, "unknown"}}) {
    EXPECT_EQ(GgmlTypeName(c.number), c.name);
    EXPECT_FALSE(DTypeFromGgml(c.number).has_value()) << c.name;
  }
}

TEST(DType, RowBytesCountsBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 5), 20);
  EXPECT_EQ(RowBytes(DType::kQ4_0, 64), 36);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512), 420);
  EXPECT_EQ(RowBytes(DType::kMXFP4, 0), 0);
}

TEST(BlockLayouts, StructsAreAsLargeAsTheTableSays) {
  EXPECT_EQ(Info(DType::kQ4_0).block_bytes, static_cast<int>(sizeof(BlockQ4_0)));
  EXPECT_EQ(Info(DType::kQ4_1).block_bytes, static_cast<int>(sizeof(BlockQ4_1)));
  EXPECT_EQ(Info(DType::kQ5_0).block_bytes, static_cast<int>(sizeof(BlockQ5_0)));
  EXPECT_EQ(Info(DType::kQ5_1).block_bytes, static_cast<int>(sizeof(BlockQ5_1)));
  EXPECT_EQ(Info(DType::kQ8_0).block_bytes, static_cast<int>(sizeof(BlockQ8_0)));
  EXPECT_EQ(Info(DType::kQ2_K).block_bytes, static_cast<int>(sizeof(BlockQ2_K)));
  EXPECT_EQ(Info(DType::kQ3_K).block_bytes, static_cast<int>(sizeof(BlockQ3_K)));
  EXPECT_EQ(Info(DType::kQ4_K).block_bytes, static_cast<int>(sizeof(BlockQ4_K)));
  EXPECT_EQ(Info(DType::kQ5_K).block_bytes, static_cast<int>(sizeof(BlockQ5_K)));
  EXPECT_EQ(Info(DType::kQ6_K).block_bytes, static_cast<int>(sizeof(BlockQ6_K)));
  EXPECT_EQ(Info(DType::kIQ4_NL).block_bytes, static_cast<int>(sizeof(BlockIQ4_NL)));
  EXPECT_EQ(Info(DType::kIQ4_XS).block_bytes, static_cast<int>(sizeof(BlockIQ4_XS)));
  EXPECT_EQ(Info(DType::kMXFP4).block_bytes, static_cast<int>(sizeof(BlockMXFP4)));
  EXPECT_EQ(Info(DType::kTQ1_0).block_bytes, static_cast<int>(sizeof(BlockTQ1_0)));
  EXPECT_EQ(Info(DType::kTQ2_0).block_bytes, static_cast<int>(sizeof(BlockTQ2_0)));
  EXPECT_EQ(Info(DType::kIQ1_S).block_bytes, static_cast<int>(sizeof(BlockIQ1_S)));
  EXPECT_EQ(Info(DType::kIQ1_M).block_bytes, static_cast<int>(sizeof(BlockIQ1_M)));
  EXPECT_EQ(Info(DType::kIQ2_XXS).block_bytes, static_cast<int>(sizeof(BlockIQ2_XXS)));
  EXPECT_EQ(Info(DType::kIQ2_XS).block_bytes, static_cast<int>(sizeof(BlockIQ2_XS)));
  EXPECT_EQ(Info(DType::kIQ2_S).block_bytes, static_cast<int>(sizeof(BlockIQ2_S)));
  EXPECT_EQ(Info(DType::kIQ3_XXS).block_bytes, static_cast<int>(sizeof(BlockIQ3_XXS)));
  EXPECT_EQ(Info(DType::kIQ3_S).block_bytes, static_cast<int>(sizeof(BlockIQ3_S)));
  EXPECT_EQ(Info(DType::kNVFP4).block_bytes, static_cast<int>(sizeof(BlockNVFP4)));
}

}  // namespace
}  // namespace remontoir
