// Products of many rows with quantised weights: each panel is unpacked once for all of them.
#pragma once

#include <algorithm>

#include "kernels/matmul_quantised.h"

namespace remontoir {

// A format's quants as bytes and its scales as float32: a block as the kernels find it after
// unpacking.
template <class Format>
struct UnpackedFormat : Format {
  static constexpr bool kNibbles = false;
  static constexpr ScaleForm kScales = ScaleForm::kFloat;
  static constexpr int Group(int i) { return i; }

  static constexpr int kSpan = 1;
  static constexpr int64_t kQuantsBytes = kPanelRows * kActivationBlock;
  static constexpr int64_t kScalesBytes = Format::kSubBlocks * kPanelRows * 4;
  static constexpr int64_t kSpanBytes = kQuantsBytes + (Format::kMinimums ? 2 : 1) * kScalesBytes;
  static constexpr int64_t QuantsAt(int64_t) { return 0; }
  static constexpr int64_t ScalesAt(bool minimums, int64_t, int64_t sub) {
    return kQuantsBytes + (minimums ? kScalesBytes : 0) + sub * kPanelRows * 4;
  }
};

// Runs a product of at least Block::kUnpackRowsMin input rows so that the tiles of rows share the
// unpacking: a piece of a panel at a time, which stays in the first-level cache while all rows pass
// by. Fewer rows go straight from the panel. The arithmetic is the same, and so are the bits.
template <class Words, class Block, class Format>
class UnpackedProduct {
 public:
  static void Run(const QuantisedProduct& product) {
    const int forms = product.row_pairs ? 2 : 1;
    if (product.rows * forms < Block::template kUnpackRowsMin<Format>)
      return RunProduct<Packed>(product);
    UnpackedProduct unpacked;
    const int rows_max = kRowsMax / forms;
    for (int first = 0; first < product.rows; first += rows_max) {
      QuantisedProduct part = product;
      part.rows = std::min(rows_max, product.rows - first);
      part.out += first * product.out_stride;
      if (product.row_index != nullptr) {
        part.row_index += first;
      } else {
        part.in += first * forms * product.in_stride;
      }
      for (int p = 0; p < product.panel_count; ++p) unpacked.RunPanel(part, p);
    }
  }

 private:
  using Packed = QuantisedKernel<Words, Block, Format>;
  using Bytes = UnpackedFormat<Format>;
  using Kernel = QuantisedKernel<Words, Block, Bytes>;
  static constexpr int64_t kPieceBlocks = 24;  // about half of a first-level cache
  static constexpr int kRowsMax = 128;         // of the input, whose sums wait for the next piece

  template <int kSub>
  static void UnpackScales(const std::byte* span, int64_t block, std::byte* to) {
    const auto store = [&](bool minimums, typename Words::Floats x) {
      Words::Store(reinterpret_cast<float*>(to + Bytes::ScalesAt(minimums, 0, kSub)), x);
    };
    store(false, Packed::template LoadScales<false, kSub>(span, block));
    if constexpr (Format::kMinimums) {
      store(true, Packed::template LoadScales<true, kSub>(span, block));
    }
  }

  // Blocks begin ... end - 1 of a panel.
  void Unpack(const std::byte* panel, int64_t begin, int64_t end) {
    std::byte* to = piece_;
    for (int64_t b = begin; b < end; ++b) {
      const std::byte* span = panel + b / Format::kSpan * Format::kSpanBytes;
      const int64_t block = b % Format::kSpan;
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) {
        Words::StoreInts(to + 64 * g, LoadQuants<Words, Format>(span + Format::QuantsAt(block), g));
      }
      UnpackScales<0>(span, block, to);
      if constexpr (Format::kSubBlocks == 2) UnpackScales<1>(span, block, to);
      to += Bytes::kSpanBytes;
    }
  }

  void RunPanel(const QuantisedProduct& product, int p) {
    const RowTiles tiles(product.rows, product.row_pairs, Kernel::kTileRows);
    const std::byte* panel = product.panels + p * product.panel_bytes;
    const int64_t blocks = product.in_width / kActivationBlock;
    typename Kernel::Tile tile;
    tile.pairs = product.row_pairs;
    tile.columns = std::min(kPanelRows, product.columns - p * kPanelRows);
    PanelsAhead nothing;
    tile.ahead = &nothing;
    for (int64_t begin = 0; begin < blocks; begin += kPieceBlocks) {
      const int64_t end = std::min(begin + kPieceBlocks, blocks);
      Unpack(panel, begin, end);
      for (int first = 0; first < product.rows; first += tiles.height) {
        const int rows = std::min(tiles.height, product.rows - first);
        PlaceTile(product, p, first, rows, tiles.forms, begin, tile);
        float* sums = sums_[first * tiles.forms];
        tile.from = begin == 0 ? nullptr : sums;
        tile.to = end == blocks ? nullptr : sums;
        RunTile<Kernel>(rows * tiles.forms, piece_, (end - begin) * kActivationBlock, tile);
      }
    }
  }

  alignas(64) std::byte piece_[kPieceBlocks * Bytes::kSpanBytes];
  alignas(64) float sums_[kRowsMax][kPanelRows];
};

// Sets the table's products of every quantised format, where unpacking takes time from the
// arithmetic.
template <class Words, class Block>
struct UnpackedProducts {
  static void Install(KernelTable* table) {
    ForEachQuantFormat([&]<PanelFormat kFormat, class Format>() {
      auto& product = table->quantised_product[static_cast<size_t>(kFormat)];
      if constexpr (Format::kNibbles) {
        product = &UnpackedProduct<Words, Block, Format>::Run;
      } else {  // bytes already
        product = &RunProduct<QuantisedKernel<Words, Block, Format>>;
      }
    });
  }
};

}  // namespace remontoir
