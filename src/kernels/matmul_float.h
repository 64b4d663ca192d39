// Products of float weights in the words of an instruction set (words_avx2.h).
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/matmul_kernel.h"

namespace remontoir {

template <class Words, DType kType>
struct FloatKernel {
  using Input = float;
  using Floats = typename Words::Floats;
  static constexpr int kTileRows = Words::kProductTileRows;
  static constexpr int64_t kVectorBytes = kPanelRows * (kType == DType::kF32 ? 4 : 2);
  static constexpr int64_t kNearBytes = Words::kNearBytes;
  static constexpr int64_t kStepWidth = 16;
  static constexpr int64_t kStepBytes = kStepWidth * kVectorBytes;
  using Tile = RowTile<float, kTileRows>;

  template <int kRows>
  static void Run(const std::byte* panel, int64_t in_width, const Tile& tile) {
    Floats sums[kRows];
    LoadSums<Words>(tile, sums);
    const float* in[kRows];
    std::copy_n(tile.in, kRows, in);
    PanelsAhead ahead = *tile.ahead;
    for (int64_t begin = 0; begin < in_width; begin += kStepWidth) {
      ahead.Prefetch();
      const int64_t end = std::min(begin + kStepWidth, in_width);
      for (int64_t k = begin; k < end; ++k) {
        const Floats weights = Words::template LoadAs<kType>(panel);
        panel += kVectorBytes;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          sums[r] = Words::MultiplyAdd(Words::SetFrom(in[r] + k), weights, sums[r]);
        }
      }
    }
    *tile.ahead = ahead;
    StoreSums<Words>(tile, sums);
  }
};

// Sets the table's products of every float format.
template <class Words>
struct FloatProducts {
  static void Install(KernelTable* table) {
    const auto set = [&](PanelFormat format, void (*kernel)(const FloatProduct&)) {
      table->float_product[static_cast<size_t>(format)] = kernel;
    };
    set(PanelFormat::kF32, &RunProduct<FloatKernel<Words, DType::kF32>>);
    set(PanelFormat::kF16, &RunProduct<FloatKernel<Words, DType::kF16>>);
    set(PanelFormat::kBF16, &RunProduct<FloatKernel<Words, DType::kBF16>>);
  }
};

}  // namespace remontoir
