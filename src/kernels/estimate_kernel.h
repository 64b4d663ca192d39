// Statistics of blocks as bytes, and what rows make of them: the estimate of sparse attention, in
// the words of an instruction set.
#pragma once

#include <cstring>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/math_scalar.h"
#include "kernels/row_tiles.h"
#include "kernels/sparse.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

template <class Words>
class EstimateKernel {
 public:
  static void Install(KernelTable* table) {
    table->pack_statistics = &PackStatistics;
    table->scale_query = &ScaleQuery;
    table->estimate_blocks = &EstimateBlocks;
  }

 private:
  using Floats = typename Words::Floats;
  using Ints = typename Words::Ints;
  using Tiles = RowTiles<Words>;

  static constexpr int kLanes = scalar::kLanes;
  static constexpr int64_t kHalfBytes = 2;
  static constexpr float kHalfLn2 = 0.346573590F;
  static constexpr int kQueryByteMax = 127;
  static constexpr float kByteScaleMin = 0x1p-100F;  // of smaller values bytes are zeros

  // The factor that brings magnitudes up to `largest` (and their sum's check, 0 if all are finite)
  // to at most `byte_max`, and what undoes it: 0 and NaN where float16 couldn't hold the values.
  struct ByteFactors {
    float to_byte;
    float scale;
  };
  static ByteFactors FactorsFor(float largest, float check, int byte_max) {
    constexpr float kHalfMax = 65504.0F;
    const auto bytes = static_cast<float>(byte_max);
    if (!(largest <= kHalfMax) || check != 0) return {0, std::numeric_limits<float>::quiet_NaN()};
    if (largest < kByteScaleMin) return {0, 0};
    return {bytes / largest, largest / bytes};
  }

  // --- Statistics ---

  // Bytes of one block's column of the panel: the four of a step stand together.
  static void PackBytes(const float* values, int64_t width, int byte_max, int byte_zero,
                        std::byte* bytes, std::byte* scale) {
    Floats largest = Words::Zero();
    Floats check = Words::Zero();
    for (int64_t d = 0; d < width; d += kLanes) {
      const Floats x = Words::LoadFirst(values + d, width - d);
      largest = Words::Larger(Words::Magnitude(x), largest);
      check = Words::MultiplyAdd(x, Words::Zero(), check);
    }
    const ByteFactors factors =
        FactorsFor(Words::LargestLane(largest), Words::FoldLanes(check), byte_max);
    std::memcpy(scale, &factors.scale, sizeof factors.scale);
    const bool known = factors.scale == factors.scale;
    const Floats to_byte = Words::Set(factors.to_byte);
    alignas(64) int8_t sixteen[kLanes];
    for (int64_t d = 0; d < width; d += kLanes) {
      const Floats x = known ? Words::LoadFirst(values + d, width - d) : Words::Zero();
      Words::StoreBytes(sixteen, Words::Multiply(x, to_byte));
      for (int64_t i = 0; i < kLanes && d + i < width; i += 4) {
        std::byte* at = bytes + (d + i) * kPanelBlocks;
        for (int64_t j = 0; j < 4; ++j) {
          at[j] = static_cast<std::byte>(static_cast<uint8_t>(sixteen[i + j] + byte_zero));
        }
      }
    }
  }

  static void PackStatistics(const StatisticsPanel& panel) {
    const int width = panel.key_width;
    std::byte* scales = panel.out + StatisticsScalesOffset(width);
    for (int b = 0; b < kPanelBlocks; ++b) {
      const float* mean = panel.columns + 3 * b * panel.stride;
      alignas(64) std::byte halves[kLanes * kHalfBytes];
      for (int d = 0; d < width; d += kLanes) {
        Words::StoreF16(halves, Words::LoadFirst(mean + d, width - d));
        for (int i = 0; i < kLanes && d + i < width; ++i) {
          std::memcpy(panel.out + (int64_t{d + i} * kPanelBlocks + b) * kHalfBytes,
                      halves + i * kHalfBytes, kHalfBytes);
        }
      }
      PackBytes(mean + panel.stride, width, kAxisByteMax, kAxisByteZero,
                panel.out + StatisticsAxisOffset(width) + 4 * b, scales + 4 * b);
      PackBytes(mean + 2 * panel.stride, width, kRestByteMax, 0,
                panel.out + StatisticsRestOffset(width) + 4 * b, scales + 4 * (kPanelBlocks + b));
    }
  }

  // --- Estimate ---

  // [0, whole sixteens) of bytes of x * to_byte, and their sum.
  template <class Value>
  static int32_t StoreQueryBytes(int64_t width, float to_byte, const Value& value, int8_t* bytes) {
    int32_t sum = 0;
    for (int64_t d = 0; d < width; d += kLanes) {
      Words::StoreBytes(bytes + d, Words::Multiply(value(d), Words::Set(to_byte)));
      for (int i = 0; i < kLanes; ++i) sum += bytes[d + i];
    }
    return sum;
  }

  static void ScaleQuery(const QueryScaling& scaling) {
    const int64_t width = scaling.key_width;
    const Floats factor = Words::Set(scaling.factor);
    Floats largest = Words::Zero();
    Floats check = Words::Zero();
    for (int64_t d = 0; d < width; d += kLanes) {
      const Floats x = Words::Multiply(Words::LoadFirst(scaling.query + d, width - d), factor);
      Words::StoreFirst(scaling.scaled + d, width - d, x);
      largest = Words::Larger(Words::Magnitude(x), largest);
      check = Words::MultiplyAdd(x, Words::Zero(), check);
    }
    const float max = Words::LargestLane(largest);
    const float finite = Words::FoldLanes(check);
    const ByteFactors query = FactorsFor(max, finite, kQueryByteMax);
    const ByteFactors square = FactorsFor(max * max, finite, kQueryByteMax);
    const bool known = query.scale == query.scale && square.scale == square.scale;
    const auto load = [&](int64_t d) {
      return known ? Words::LoadFirst(scaling.scaled + d, width - d) : Words::Zero();
    };
    const int32_t sum = StoreQueryBytes(width, query.to_byte, load, scaling.bytes);
    const auto load_square = [&](int64_t d) {
      const Floats x = load(d);
      return Words::Multiply(x, x);
    };
    StoreQueryBytes(width, square.to_byte, load_square,
                    scaling.bytes + QueryByteStride(scaling.key_width));
    *scaling.of = {query.scale, square.scale, kAxisByteZero * sum};
  }

  // sums[r][v] = rows[r][0 ... width) . statistic[v], where the sixteen values of a statistic at d
  // stand at at[v] + 32 * d.
  template <int kRows, int kCount>
  static void Dots(const float* first_row, int64_t width, const std::byte* const (&at)[kCount],
                   Floats (&sums)[kRows][kCount]) {
    const float* rows[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      rows[r] = first_row + r * width;
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sums[r][v] = Words::Zero();
    }
#pragma GCC unroll 4
    for (int64_t d = 0; d < width; ++d) {
      Tiles::template MultiplyAdd<DType::kF16, kRows, kCount>(
          [&](int r) { return Words::SetFrom(rows[r] + d); },
          [&](int v) { return at[v] + d * kLanes * kHalfBytes; }, sums);
    }
  }

  // Likewise of bytes, onto what `sums` has: four values of sixteen blocks a step.
  template <int kRows, int kCount>
  static void ByteDots(const int8_t* first_row, int64_t row_stride, int64_t width,
                       const std::byte* const (&at)[kCount], Ints (&sums)[kRows][kCount]) {
#pragma GCC unroll 4
    for (int64_t d = 0; d < width; d += 4) {
      Ints blocks[kCount];
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) blocks[v] = Words::LoadInts(at[v] + d * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto four = Words::SetFour(first_row + r * row_stride + d);
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) {
          sums[r][v] = Words::DotSevenBits(sums[r][v], blocks[v], four);
        }
      }
    }
  }

  // growths = ln2 / 2 * ((q . axis)^2 + q^2 . rest) of a tile.
  template <int kRows, int kCount>
  [[gnu::noinline]] static void GrowthTile(const BlockEstimate& estimate, int row, int panel) {
    const int64_t width = estimate.key_width;
    const int64_t stride = QueryByteStride(estimate.key_width);
    const QueryBytes* scales = estimate.scales + row;
    const int8_t* bytes = estimate.bytes + row * 2 * stride;
    float* growths = estimate.growths + row * estimate.stride + panel * kLanes;
    const std::byte* axes[kCount];
    const std::byte* rests[kCount];
    const std::byte* factors[kCount];
    for (int v = 0; v < kCount; ++v) {
      axes[v] = estimate.panels[panel + v] + StatisticsAxisOffset(estimate.key_width);
      rests[v] = estimate.panels[panel + v] + StatisticsRestOffset(estimate.key_width);
      factors[v] = estimate.panels[panel + v] + StatisticsScalesOffset(estimate.key_width);
    }
    Ints sums[kRows][kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Ints zero = Words::SetInts(-scales[r].zero);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sums[r][v] = zero;
    }
    ByteDots<kRows, kCount>(bytes, 2 * stride, width, axes, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      const Floats factor = Words::template LoadAs<DType::kF32>(factors[v]);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats along = Words::Multiply(Words::ToFloats(sums[r][v]),
                                             Words::Multiply(factor, Words::Set(scales[r].scale)));
        const Floats half = Words::Multiply(along, Words::Set(kHalfLn2));
        Words::Store(growths + r * estimate.stride + v * kLanes, Words::Multiply(along, half));
        sums[r][v] = Words::SetInts(0);
      }
    }
    ByteDots<kRows, kCount>(bytes + stride, 2 * stride, width, rests, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      const Floats factor = Words::Multiply(
          Words::template LoadAs<DType::kF32>(factors[v] + kLanes * 4), Words::Set(kHalfLn2));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        float* growth = growths + r * estimate.stride + v * kLanes;
        const Floats scaled = Words::Multiply(factor, Words::Set(scales[r].square_scale));
        Words::Store(growth,
                     Words::MultiplyAdd(Words::ToFloats(sums[r][v]), scaled, Words::Load(growth)));
      }
    }
  }

  template <int kRows, int kCount>
  [[gnu::noinline]] static void EstimateTile(const BlockEstimate& estimate, int row, int panel) {
    GrowthTile<kRows, kCount>(estimate, row, panel);
    const int64_t width = estimate.key_width;
    const std::byte* means[kCount];
    for (int v = 0; v < kCount; ++v) means[v] = estimate.panels[panel + v];
    const float* growths = estimate.growths + row * estimate.stride + panel * kLanes;
    float* weights = estimate.weights + row * estimate.stride + panel * kLanes;
    Floats sums[kRows][kCount];
    Dots<kRows, kCount>(estimate.queries + row * width, width, means, sums);
    const Floats keys = Words::Set(estimate.log2_block_keys);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        const int64_t at = r * estimate.stride + v * kLanes;
        const Floats growth =
            Words::Smaller(Words::Load(growths + at), Words::Set(kWeightGrowthMax));
        Words::Store(weights + at, Words::Add(Words::Add(keys, sums[r][v]), growth));
      }
    }
  }

  template <int kRows>
  static void EstimateRows(const BlockEstimate& estimate, int row) {
    constexpr int kCount = Tiles::SixteensOf(kRows);
    int panel = 0;
    for (; panel + kCount <= estimate.panel_count; panel += kCount) {
      EstimateTile<kRows, kCount>(estimate, row, panel);
    }
    for (; panel < estimate.panel_count; ++panel) EstimateTile<kRows, 1>(estimate, row, panel);
    for (int r = row; r < row + kRows; ++r) {
      const float* weights = estimate.weights + r * estimate.stride;
      Floats largest = Words::Set(-std::numeric_limits<float>::infinity());
      for (int p = 0; p < estimate.panel_count; ++p) {
        largest = Words::Larger(Words::Load(weights + p * kLanes), largest);
      }
      estimate.weight_max[r] = Words::LargestLane(largest);
    }
  }

  static void EstimateBlocks(const BlockEstimate& estimate) {
    Tiles::ForEach(estimate.row_count, [&](int row, auto height) {
      EstimateRows<decltype(height)::value>(estimate, row);
    });
  }
};

}  // namespace remontoir
