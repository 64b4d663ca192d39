// Tiles of a few rows that share what they read, in the words of an instruction set: their heights,
// and the product that runs in registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace remontoir {

// A member of a set of words, so that each instruction set keeps code of its own.
template <class Words>
struct RowTiles {
  using Floats = typename Words::Floats;

  // Element `index` of a run of such values.
  template <DType kType>
  static float LoadOne(const std::byte* run, int64_t index) {
    if constexpr (kType == DType::kF32) {
      float value;
      std::memcpy(&value, run + index * 4, 4);
      return value;
    } else if constexpr (kType == DType::kQ8_0) {
      return static_cast<int8_t>(run[index]);
    } else {
      static_assert(kType == DType::kF16 || kType == DType::kBF16);
      uint16_t bits;
      std::memcpy(&bits, run + index * 2, 2);
      return kType == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
    }
  }

  // Heights that tiles are compiled for; other counts of rows are cut into these.
  static constexpr int HeightOf(int rows, int most) {
    for (const int height : {12, 8, 6, 4, 3, 2}) {
      if (height <= rows && height <= most) return height;
    }
    return 1;
  }
  // Sixteens (panels of keys, or runs of columns) that a tile of so many rows works on at once: as
  // many as the registers hold sums for.
  static constexpr int SixteensOf(int rows) {
    int sixteens = 4;
    while (sixteens > 1 && sixteens * rows > Words::kAccumulators) sixteens /= 2;
    return sixteens;
  }

  // Calls run(row, integral constant of the height); it is one of HeightOf's, kMost at most.
  template <int kMost, class Run>
  [[gnu::always_inline]] static void AtHeight(int row, int height, const Run& run) {
    switch (height) {
      case 12:
        if constexpr (kMost >= 12) run(row, std::integral_constant<int, 12>{});
        break;
      case 8:
        if constexpr (kMost >= 8) run(row, std::integral_constant<int, 8>{});
        break;
      case 6: run(row, std::integral_constant<int, 6>{}); break;
      case 4: run(row, std::integral_constant<int, 4>{}); break;
      case 3: run(row, std::integral_constant<int, 3>{}); break;
      case 2: run(row, std::integral_constant<int, 2>{}); break;
      default: run(row, std::integral_constant<int, 1>{}); break;
    }
  }

  // Calls run(first row, integral constant of the height) for tiles of nearly equal height: 12 rows
  // go as 6 + 6 where 8 fit.
  template <class Run>
  static void ForEach(int rows, const Run& run) {
    const int tiles = (rows + Words::kTileRowsMax - 1) / Words::kTileRowsMax;
    const int most = tiles == 0 ? 0 : (rows + tiles - 1) / tiles;
    for (int row = 0; row < rows;) {
      const int height = HeightOf(std::min(most, rows - row), Words::kTileRowsMax);
      AtHeight<Words::kTileRowsMax>(row, height, run);
      row += height;
    }
  }

  // sums[r][v] += row(r) * (the sixteen elements at vector(v)). Whatever there is less of stays in
  // registers, so that the sums fill the rest of them.
  template <DType kType, int kRows, int kVectors, class RowAt, class VectorAt>
  static void MultiplyAdd(const RowAt& row, const VectorAt& vector,
                          Floats (&sums)[kRows][kVectors]) {
    if constexpr (kRows < kVectors * Words::kRegisters) {
      Floats rows[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) rows[r] = row(r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Words::template AddProducts<kType>(rows, vector(v), v, sums);
      }
    } else {
      Floats vectors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) vectors[v] = Words::template LoadAs<kType>(vector(v));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Floats x = row(r);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = Words::MultiplyAdd(x, vectors[v], sums[r][v]);
        }
      }
    }
  }
};

}  // namespace remontoir
