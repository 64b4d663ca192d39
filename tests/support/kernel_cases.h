// The table of products and attention shapes that tests compare and benchmarks time, and their
// data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/kv_layout.h"

namespace remontoir {

struct ProductCase {
  DType type;
  int64_t out_width;
  int64_t in_width;
  int rows;
};

inline constexpr DType kAllTypes[] = {
    DType::kF32,   DType::kF16,    DType::kBF16,    DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,
    DType::kQ5_1,  DType::kQ8_0,   DType::kQ2_K,    DType::kQ3_K,   DType::kQ4_K,  DType::kQ5_K,
    DType::kQ6_K,  DType::kIQ4_NL, DType::kIQ4_XS,  DType::kMXFP4,  DType::kTQ1_0, DType::kTQ2_0,
    DType::kIQ1_S, DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS,
    DType::kIQ3_S, DType::kNVFP4};
static_assert(std::size(kAllTypes) == kDTypeCount);

// Whole and short panels, one block and many, every remainder of the kernels' row tiles.
inline std::vector<ProductCase> ProductCases() {
  std::vector<ProductCase> cases;
  for (const DType type : kAllTypes) {
    const int64_t block = Info(type).block_elements;
    cases.push_back({type, 16, block, 1});
    cases.push_back({type, 5, 2 * block, 3});
    cases.push_back({type, 33, 768, 7});
    cases.push_back({type, 48, 1536, 2});
    cases.push_back({type, 20, 512, 17});
  }
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    cases.push_back({type, 18, 37, 5});
    cases.push_back({type, 1, 1, 1});
  }
  return cases;
}

inline std::string Name(const ProductCase& c) {
  return std::string(Info(c.type).name) + "_" + std::to_string(c.out_width) + "x" +
         std::to_string(c.in_width) + "_rows" + std::to_string(c.rows);
}

// The element types of keys and values that every table has attention for.
inline std::vector<DType> KvTypes() {
  std::vector<DType> types;
  for (int type = 0; type < kDTypeCount; ++type) {
    if (ScalarKernels().attention_partial[static_cast<size_t>(type)] != nullptr) {
      types.push_back(static_cast<DType>(type));
    }
  }
  return types;
}

// What a page holds of a token's key or value.
inline std::vector<float> AsStored(std::vector<float> row, DType type) {
  if (type == DType::kF16) {
    for (float& x : row) x = HalfToFloat(FloatToHalf(x));
  } else if (type == DType::kBF16) {
    for (float& x : row) x = Bf16ToFloat(FloatToBf16(x));
  } else if (type == DType::kQ8_0) {
    for (size_t i = 0; i < row.size(); i += kKvScaleBlock) {
      const std::span<float> block(&row[i], std::min<size_t>(kKvScaleBlock, row.size() - i));
      float largest = 0;
      for (const float x : block) largest = std::max(largest, std::fabs(x));
      const float scale = HalfToFloat(FloatToHalf(largest / 127));
      for (float& x : block) {
        x = scale == 0 ? 0 : std::nearbyint(std::clamp(x * (1 / scale), -127.0F, 127.0F)) * scale;
      }
    }
  }
  return row;
}

// Normal deviates, a pure function of the seed.
inline std::vector<float> Normals(size_t count, uint64_t seed) {
  const CounterRandom random(seed, 1);
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - random.Uniform(2 * i)));
    const double angle = 2 * std::numbers::pi * random.Uniform(2 * i + 1);
    out[i] = static_cast<float>(radius * std::cos(angle));
  }
  return out;
}

// Where blocks of this type have their half-precision scales; IQ1_M has its one in pieces.
inline std::vector<int32_t> HalfScalesAt(DType type) {
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kF16: return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ2_K: return {80, 82};
    case DType::kQ3_K: return {108};
    case DType::kQ6_K: return {208};
    case DType::kTQ1_0: return {52};
    case DType::kTQ2_0: return {64};
    default: return {};
  }
}

// Gives a block a half-precision scale, or its `i`-th one; other types keep theirs.
inline void SetHalfScale(DType type, std::byte* block, size_t i, uint16_t half) {
  const std::vector<int32_t> places = HalfScalesAt(type);
  if (i < places.size()) std::memcpy(block + places[i], &half, 2);
  if (type != DType::kIQ1_M) return;
  for (int word = 0; word < 4; ++word) {  // on top of four words
    std::byte& top = block[49 + 2 * word];
    top = (top & std::byte{15}) | static_cast<std::byte>((half >> 4 * word & 15) << 4);
  }
}

// File bytes of `count` weights (a whole number of blocks): any quants, scales of either sign.
inline std::vector<std::byte> RandomWeights(DType type, int64_t count, uint64_t seed) {
  const CounterRandom random(seed, 2);
  const DTypeInfo& info = Info(type);
  std::vector<std::byte> out(static_cast<size_t>(RowBytes(type, count)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(random.Bits(i) >> 13);
  for (int64_t b = 0; b < count / info.block_elements; ++b) {
    std::byte* block = out.data() + b * info.block_bytes;
    const auto draw = [&](uint64_t i) {
      return static_cast<float>(random.Uniform((1ULL << 40) + 4 * static_cast<uint64_t>(b) + i) -
                                0.5);
    };
    for (size_t i = 0; i < 2; ++i) SetHalfScale(type, block, i, FloatToHalf(draw(i)));
    const float value = draw(0);
    if (type == DType::kF32) std::memcpy(block, &value, 4);
    if (type == DType::kBF16) {
      const uint16_t bits = FloatToBf16(value);
      std::memcpy(block, &bits, 2);
    }
    if (type == DType::kMXFP4) block[0] = static_cast<std::byte>(120 + b % 10);
  }
  return out;
}

}  // namespace remontoir
