// How the vector kernels walk a matrix product, in the words of an instruction set (words_avx2.h):
// panel by panel, each in tiles of a few rows that stay in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/intrinsics.h"
#include "kernels/matmul.h"
#include "kernels/packing.h"

namespace remontoir {

// Weights to ask for while there is arithmetic to do: a few rows are bound by waiting for them. One
// tile reads a stream: the first-level cache gets what comes next and the second-level cache what
// comes later, on into the next panels. Several tiles share the next panel out. One or two rows
// read nearly as fast as memory gives by themselves, and asking early costs them a third.
class PanelsAhead {
 public:
  PanelsAhead(const std::byte* panel, int64_t panel_bytes, int64_t step_bytes, int rows, int tiles)
      : near_(panel + (tiles == 1 ? kNearBytes : panel_bytes)),
        near_bytes_(rows < kRowsMin ? 0 : (step_bytes + tiles - 1) / tiles),
        later_bytes_(rows < kRowsMin || tiles > 1 ? 0 : step_bytes) {}

  // Once for each step of a tile. Never faults, whatever the address.
  void Prefetch() {
    for (int64_t line = 0; line < near_bytes_; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(near_ + line), _MM_HINT_T0);
    }
    for (int64_t line = 0; line < later_bytes_; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(near_ + line + kLaterBytes), _MM_HINT_T1);
    }
    near_ += near_bytes_;
  }

 private:
  static constexpr int kRowsMin = 3;
  static constexpr int64_t kCacheLineBytes = 64;
  static constexpr int64_t kNearBytes = 2048;
  static constexpr int64_t kLaterBytes = 14336;  // beyond the near ones

  const std::byte* near_;
  int64_t near_bytes_;
  int64_t later_bytes_;
};

// A few input rows of a product, done together in registers.
template <class Input, int kRowsMax>
struct RowTile {
  const Input* in[kRowsMax];
  float* out[kRowsMax];  // of the output rows: half as many in pairs
  bool pairs;
  int columns;  // of the panel
  PanelsAhead* ahead;
};

// Writes the sums of a tile's rows, or those of its pairs.
template <class Words, class Tile, int kRows>
inline void StoreSums(const Tile& tile, const typename Words::Floats (&sums)[kRows]) {
  const auto store = [&](float* out, typename Words::Floats x) {
    if (tile.columns >= kPanelRows) return Words::Store(out, x);
    Words::StoreFirst(out, tile.columns, x);
  };
  if constexpr (kRows % 2 == 0) {
    if (tile.pairs) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r += 2) {
        store(tile.out[r / 2], Words::Add(sums[r], sums[r + 1]));
      }
      return;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) store(tile.out[r], sums[r]);
}

// Runs the kernel of exactly `rows` rows, 1 ... kRows.
template <class Kernel, int kRows = Kernel::kTileRows>
inline void RunTile(int rows, const std::byte* panel, int64_t in_width,
                    const typename Kernel::Tile& tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTile<Kernel, kRows - 1>(rows, panel, in_width, tile);
  }
  Kernel::template Run<kRows>(panel, in_width, tile);
}

// Panel by panel, so that a panel is read from memory once and then serves all rows from the cache,
// in tiles of nearly equal height: 9 rows of at most 8 go as 5 + 4.
template <class Kernel>
void RunProduct(const PanelProduct<typename Kernel::Input>& product) {
  const int forms = product.row_pairs ? 2 : 1;  // input rows of an output row
  const int height_max = Kernel::kTileRows / forms;
  const int tiles = std::max(1, (product.rows + height_max - 1) / height_max);
  const int height = (product.rows + tiles - 1) / tiles;
  for (int p = 0; p < product.panel_count; ++p) {
    const std::byte* panel = product.panels + p * product.panel_bytes;
    typename Kernel::Tile tile;
    tile.pairs = product.row_pairs;
    tile.columns = std::min(kPanelRows, product.columns - p * kPanelRows);
    PanelsAhead ahead(panel, product.panel_bytes, Kernel::kStepBytes, product.rows * forms, tiles);
    tile.ahead = &ahead;
    for (int first = 0; first < product.rows; first += height) {
      const int rows = std::min(height, product.rows - first);
      for (int r = 0; r < rows; ++r) {
        const int64_t row = product.row_index != nullptr ? product.row_index[first + r] : first + r;
        for (int form = 0; form < forms; ++form) {
          tile.in[r * forms + form] = product.in + (row * forms + form) * product.in_stride;
        }
        tile.out[r] = product.out + (first + r) * product.out_stride + p * kPanelRows;
      }
      RunTile<Kernel>(rows * forms, panel, product.in_width, tile);
    }
  }
}

}  // namespace remontoir
