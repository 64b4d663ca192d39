// Products of quantised weights in the words of an instruction set (byte_words_avx2.h).
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/kernel_table.h"
#include "kernels/matmul_kernel.h"
#include "kernels/panel_formats.h"

namespace remontoir {

// The quants of four k, group g of a block, as stored: unsigned bytes or signed ones.
template <class Words, class Format>
inline typename Words::Ints LoadQuants(const std::byte* quants, int g) {
  if constexpr (!Format::kNibbles) return Words::LoadInts(quants + 64 * g);
  const auto packed = Words::LoadInts(quants + 64 * (g % 4));
  const auto nibbles = g < 4 ? Words::LowNibbles(packed) : Words::HighNibbles(packed);
  if constexpr (Format::kLookedUp) return Words::LookUp(nibbles, Format::Values());
  if constexpr (Format::kHighBits == 0) return nibbles;
  // A plane of high bits moves so far left that the group's come to stand above the nibbles.
  constexpr int kPlaneGroups = 8 / std::max(Format::kHighBits, 1);
  const auto plane = Words::LoadInts(quants + Format::kHighBitsOffset + 64 * (g / kPlaneGroups));
  const int left = 4 - Format::kHighBits * (g % kPlaneGroups);
  return Words::OrMasked(nibbles, Words::ShiftLeft(plane, left),
                         static_cast<int8_t>(Format::kQuantMax - 15));
}

// What a sub-block's whole-number products start from: less than nothing where the quants stand
// kOffset above the weights.
template <class Words, class Format, int kSub, int kOffset = Format::kOffset>
inline typename Words::Ints StartProducts(const ActivationBlock& in) {
  if constexpr (kOffset == 0) return Words::ZeroInts();
  const float* sum = Format::kSubBlocks == 1 ? &in.sum : kSub == 0 ? &in.sum_low : &in.sum_high;
  return Words::template Offset<std::countr_zero(static_cast<unsigned>(kOffset))>(sum);
}

// Whole-number products of sub-block kSub with kRows rows, by instructions that add four products
// of bytes to a sum.
template <class Words, class Format, int kSub, int kRows>
inline void DotProducts(const std::byte* quants, const ActivationBlock* const (&in)[kRows],
                        typename Words::Ints (&products)[kRows]) {
  constexpr int kGroups = 8 / Format::kSubBlocks;
  constexpr int kOffset = Format::kSigned ? 128 : Format::kOffset;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    products[r] = StartProducts<Words, Format, kSub, kOffset>(*in[r]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kGroups; ++i) {
    const int g = Format::Group(kSub * kGroups + i);
    auto weights = LoadQuants<Words, Format>(quants, g);
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
  template <class Format>
  static constexpr int kTileRows = Words::kQuantisedTileRows;
  template <class Format, int kSub, int kRows>
  static void Products(const std::byte* quants, const ActivationBlock* const (&in)[kRows],
                       typename Words::Ints (&products)[kRows]) {
    DotProducts<Words, Format, kSub>(quants, in, products);
  }
};

// `Block` computes the whole-number products of a block.
template <class Words, class Block, class Format>
struct QuantisedKernel {
  using Input = ActivationBlock;
  using Floats = typename Words::Floats;
  static constexpr int kTileRows = Block::template kTileRows<Format>;
  static constexpr int64_t kNearBytes = Words::kNearBytes;
  static constexpr int64_t kStepWidth = kActivationBlock;
  static constexpr int64_t kStepBytes = (Format::kSpanBytes + Format::kSpan - 1) / Format::kSpan;
  using Tile = RowTile<ActivationBlock, kTileRows>;

  // The scales or minimums of sub-block kSub of block `block` of a span.
  template <bool kMinimums, int kSub>
  static Floats LoadScales(const std::byte* span, int64_t block) {
    const std::byte* scales = span + Format::ScalesAt(kMinimums, block, kSub);
    if constexpr (Format::kScales == ScaleForm::kFloat) {
      return Words::template LoadAs<DType::kF32>(scales);
    } else if constexpr (Format::kScales == ScaleForm::kHalf) {
      return Words::template LoadAs<DType::kF16>(scales);
    } else {
      const Floats step = Words::template LoadAs<DType::kF16>(span + Format::StepsAt(kMinimums));
      const Floats scale = Words::Multiply(step, Words::LoadBytes(scales));
      if constexpr (Format::kStepsPart == 1.0F) {
        return scale;
      } else {
        return Words::Multiply(scale, Words::SetFrom(&Format::kStepsPart));
      }
    }
  }

  // values[r] = or += scale * product, for sub-block kSub.
  template <int kSub, int kRows>
  static void AddSubBlock(const std::byte* span, int64_t block,
                          const ActivationBlock* const (&in)[kRows], Floats (&values)[kRows]) {
    typename Words::Ints products[kRows];
    Block::template Products<Format, kSub>(span + Format::QuantsAt(block), in, products);
    const Floats scale = LoadScales<false, kSub>(span, block);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats exact = Words::ToFloats(products[r]);
      values[r] =
          kSub == 0 ? Words::Multiply(exact, scale) : Words::MultiplyAdd(exact, scale, values[r]);
    }
  }

  template <int kSub, int kRows>
  static void AddMinimums(const std::byte* span, int64_t block,
                          const ActivationBlock* const (&in)[kRows], Floats (&values)[kRows]) {
    const Floats minimum = LoadScales<true, kSub>(span, block);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float* sum = Format::kSubBlocks == 1 ? &in[r]->sum
                         : kSub == 0             ? &in[r]->sum_low
                                                 : &in[r]->sum_high;
      values[r] = Words::MultiplyAdd(Words::SetFrom(sum), minimum, values[r]);
    }
  }

  // sums[r] += block `block` of a span times the row's block, and on to the rows' next blocks.
  template <int kRows>
  static void AddBlock(const std::byte* span, int64_t block, const ActivationBlock* (&in)[kRows],
                       Floats (&sums)[kRows]) {
    Floats values[kRows];  // in units of the activation's scale
    AddSubBlock<0>(span, block, in, values);
    if constexpr (Format::kSubBlocks == 2) AddSubBlock<1>(span, block, in, values);
    if constexpr (Format::kMinimums) AddMinimums<0>(span, block, in, values);
    if constexpr (Format::kMinimums && Format::kSubBlocks == 2) {
      AddMinimums<1>(span, block, in, values);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r] = Words::MultiplyAdd(values[r], Words::SetFrom(&in[r]->scale), sums[r]);
      ++in[r];
    }
  }

  template <int kRows>
  static void Run(const std::byte* panel, int64_t in_width, const Tile& tile) {
    Floats sums[kRows];
    LoadSums<Words>(tile, sums);
    const ActivationBlock* in[kRows];
    std::copy_n(tile.in, kRows, in);
    PanelsAhead ahead = *tile.ahead;
    for (int64_t k = 0; k < in_width; k += Format::kSpan * kActivationBlock) {
      for (int64_t block = 0; block < Format::kSpan; ++block) {
        ahead.Prefetch();
        AddBlock(panel, block, in, sums);
      }
      panel += Format::kSpanBytes;
    }
    *tile.ahead = ahead;
    StoreSums<Words>(tile, sums);
  }
};

// Sets the table's products of every quantised format.
template <class Words, class Block>
struct QuantisedProducts {
  static void Install(KernelTable* table) {
    ForEachQuantFormat([&]<PanelFormat kFormat, class Format>() {
      table->quantised_product[static_cast<size_t>(kFormat)] =
          &RunProduct<QuantisedKernel<Words, Block, Format>>;
    });
  }
};

}  // namespace remontoir
