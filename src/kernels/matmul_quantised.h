// Products of quantised weights in the words of an instruction set (byte_words_avx2.h).
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/matmul_kernel.h"
#include "kernels/panel_formats.h"

namespace remontoir {

// The quants of four k, group g of a block, as stored: unsigned bytes or signed ones.
template <class Words, class Format>
inline typename Words::Ints LoadQuants(const std::byte* block, int g) {
  if constexpr (!Format::kNibbles) return Words::LoadInts(block + 64 * g);
  const auto packed = Words::LoadInts(block + 64 * (g % 4));
  return g < 4 ? Words::LowNibbles(packed) : Words::HighNibbles(packed);
}

// What a block's whole-number products start from: less than nothing where the stored quants stand
// above the weights.
template <class Words, class Format>
inline typename Words::Ints StartProducts(const ActivationBlock& in) {
  if constexpr (Format::kOffsetShift == 0) return Words::ZeroInts();
  return Words::template Offset<Format::kOffsetShift>(&in.sum);
}

// Whole-number products of sub-block kSub with kRows rows, by instructions that add four products
// of bytes to a sum.
template <class Words, class Format, int kSub, int kRows>
inline void DotProducts(const std::byte* block, const ActivationBlock* const (&in)[kRows],
                        typename Words::Ints (&products)[kRows]) {
  constexpr int kGroups = 8 / Format::kSubBlocks;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) products[r] = StartProducts<Words, Format>(*in[r]);
#pragma GCC unroll 8
  for (int i = 0; i < kGroups; ++i) {
    const int g = Format::Group(kSub * kGroups + i);
    auto weights = LoadQuants<Words, Format>(block, g);
    if constexpr (Format::kSigned) weights = Words::MoveUp(weights);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      products[r] = Words::Dot(products[r], weights, Words::SetFour(in[r]->q + 4 * g));
    }
  }
}

// How an instruction set with dot products of bytes computes a block.
template <class Words>
struct DotBlock {
  template <class Format, int kSub, int kRows>
  static void Products(const std::byte* block, const ActivationBlock* const (&in)[kRows],
                       typename Words::Ints (&products)[kRows]) {
    DotProducts<Words, Format, kSub>(block, in, products);
  }
};

// `Block` computes the whole-number products of a block.
template <class Words, class Block, class Format>
struct QuantisedKernel {
  using Input = ActivationBlock;
  using Floats = typename Words::Floats;
  static constexpr int kTileRows = Words::kQuantisedTileRows;
  static constexpr int64_t kStepWidth = kActivationBlock;
  static constexpr int64_t kStepBytes = Format::kBlockBytes;
  using Tile = RowTile<ActivationBlock, kTileRows>;

  static Floats LoadScale(const std::byte* block, int64_t offset, int sub) {
    constexpr DType kType = Format::kHalfScales ? DType::kF16 : DType::kF32;
    return Words::template LoadAs<kType>(block + offset + sub * kPanelRows * Format::kScaleBytes);
  }

  // values[r] = or += scale * product, for sub-block kSub.
  template <int kSub, int kRows>
  static void AddSubBlock(const std::byte* block, const ActivationBlock* const (&in)[kRows],
                          Floats (&values)[kRows]) {
    typename Words::Ints products[kRows];
    Block::template Products<Format, kSub>(block, in, products);
    const Floats scale = LoadScale(block, Format::kScalesOffset, kSub);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats exact = Words::ToFloats(products[r]);
      values[r] =
          kSub == 0 ? Words::Multiply(exact, scale) : Words::MultiplyAdd(exact, scale, values[r]);
    }
  }

  template <int kRows>
  static void AddMinimums(const std::byte* block, const ActivationBlock* const (&in)[kRows],
                          Floats (&values)[kRows]) {
#pragma GCC unroll 2
    for (int sub = 0; sub < Format::kSubBlocks; ++sub) {
      const Floats minimum = LoadScale(block, Format::kMinimumsOffset, sub);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* sum = Format::kSubBlocks == 1 ? &in[r]->sum
                           : sub == 0              ? &in[r]->sum_low
                                                   : &in[r]->sum_high;
        values[r] = Words::MultiplyAdd(Words::SetFrom(sum), minimum, values[r]);
      }
    }
  }

  template <int kRows>
  static void Run(const std::byte* panel, int64_t in_width, const Tile& tile) {
    Floats sums[kRows];
    const ActivationBlock* in[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r] = Words::Zero();
      in[r] = tile.in[r];
    }
    PanelsAhead ahead = *tile.ahead;
    for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
      ahead.Prefetch();
      Floats values[kRows];  // of the block, in units of the activation's scale
      AddSubBlock<0>(panel, in, values);
      if constexpr (Format::kSubBlocks == 2) AddSubBlock<1>(panel, in, values);
      if constexpr (Format::kMinimums) AddMinimums(panel, in, values);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r] = Words::MultiplyAdd(values[r], Words::SetFrom(&in[r]->scale), sums[r]);
        ++in[r];
      }
      panel += Format::kBlockBytes;
    }
    *tile.ahead = ahead;
    StoreSums<Words>(tile, sums);
  }
};

// Sets the table's products of every quantised format.
template <class Words, class Block>
struct QuantisedProducts {
  template <PanelFormat kFormat, class Format>
  static void Set(KernelTable* table) {
    table->quantised_product[static_cast<size_t>(kFormat)] =
        &RunProduct<QuantisedKernel<Words, Block, Format>>;
  }
  static void Install(KernelTable* table) {
    Set<PanelFormat::kS8, FormatS8>(table);
    Set<PanelFormat::kU4Offset, FormatU4Offset>(table);
    Set<PanelFormat::kU4Half, FormatU4Half>(table);
    Set<PanelFormat::kU4, FormatU4>(table);
    Set<PanelFormat::kU5, FormatU5>(table);
    Set<PanelFormat::kU6Sub16, FormatU6Sub16>(table);
  }
};

}  // namespace remontoir
