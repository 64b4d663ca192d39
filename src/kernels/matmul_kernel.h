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
// tile reads a stream: the second-level cache gets what comes later, on into the next panels, and
// the first-level cache what comes next, where the instruction set's kernels gain by that. Several
// tiles share the next panel out.
class PanelsAhead {
 public:
  // Nothing to ask for.
  PanelsAhead() = default;

  // For a tile that reads step_bytes in a step. near: null, or what comes next.
  static PanelsAhead OfStream(const std::byte* near, const std::byte* later, int64_t step_bytes) {
    return {near, near == nullptr ? 0 : step_bytes, later, step_bytes};
  }
  static PanelsAhead Shared(const std::byte* next_panel, int64_t step_bytes, int tiles) {
    return {next_panel, (step_bytes + tiles - 1) / tiles, nullptr, 0};
  }

  // Once for each step of a tile. Never faults, whatever the address.
  void Prefetch() {
    for (int64_t line = 0; line < near_bytes_; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(near_ + line), _MM_HINT_T0);
    }
    for (int64_t line = 0; line < later_bytes_; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(later_ + line), _MM_HINT_T1);
    }
    near_ += near_bytes_;
    later_ += later_bytes_;
  }

 private:
  static constexpr int64_t kCacheLineBytes = 64;

  PanelsAhead(const std::byte* near, int64_t near_bytes, const std::byte* later,
              int64_t later_bytes)
      : near_(near), later_(later), near_bytes_(near_bytes), later_bytes_(later_bytes) {}

  const std::byte* near_ = nullptr;
  const std::byte* later_ = nullptr;
  int64_t near_bytes_ = 0;
  int64_t later_bytes_ = 0;
};

// A few input rows of a product, done together in registers.
template <class Input, int kRowsMax>
struct RowTile {
  const Input* in[kRowsMax];
  float* out[kRowsMax];  // of the output rows: half as many in pairs
  bool pairs;
  int columns;  // of the panel
  PanelsAhead* ahead;
  // A product cut along k: sums to go on from, and where to leave them, [rows][kPanelRows]. Null:
  // from zero, and done.
  const float* from = nullptr;
  float* to = nullptr;
};

template <class Words, class Tile, int kRows>
inline void LoadSums(const Tile& tile, typename Words::Floats (&sums)[kRows]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    sums[r] = tile.from == nullptr ? Words::Zero() : Words::Load(tile.from + r * kPanelRows);
  }
}

// Writes the sums of a tile's rows, or those of its pairs; or leaves them for later.
template <class Words, class Tile, int kRows>
inline void StoreSums(const Tile& tile, const typename Words::Floats (&sums)[kRows]) {
  const auto store = [&](float* out, typename Words::Floats x) {
    if (tile.columns >= kPanelRows) return Words::Store(out, x);
    Words::StoreFirst(out, tile.columns, x);
  };
  if (tile.to != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) Words::Store(tile.to + r * kPanelRows, sums[r]);
    return;
  }
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

// The tiles of a product's rows: of nearly equal height, so that 9 rows of at most 8 go as 5 + 4.
struct RowTiles {
  RowTiles(int rows, bool pairs, int height_max)
      : forms(pairs ? 2 : 1),
        count(std::max(1, (rows + height_max / forms - 1) / (height_max / forms))),
        height((rows + count - 1) / count) {}

  int forms;   // input rows of an output row
  int count;   // of tiles
  int height;  // output rows of a tile, but for the last one
};

// Points the tile at `rows` output rows from `first` on, columns of panel p, k from in_begin on (in
// elements of the input).
template <class Input, class Tile>
inline void PlaceTile(const PanelProduct<Input>& product, int p, int first, int rows, int forms,
                      int64_t in_begin, Tile& tile) {
  for (int r = 0; r < rows; ++r) {
    const int64_t row = product.row_index != nullptr ? product.row_index[first + r] : first + r;
    for (int form = 0; form < forms; ++form) {
      tile.in[r * forms + form] = product.in + (row * forms + form) * product.in_stride + in_begin;
    }
    tile.out[r] = product.out + (first + r) * product.out_stride + p * kPanelRows;
  }
}

// What to ask for during panel p: what lies about so many bytes on in the stream, in whole panels,
// and behind the last one what the caller reads after.
template <class Kernel>
PanelsAhead AheadOf(const PanelProduct<typename Kernel::Input>& product, int p, int tiles) {
  constexpr int64_t kLaterBytes = 16384;
  const std::byte* panel = product.panels + p * product.panel_bytes;
  if (tiles > 1) {
    return PanelsAhead::Shared(panel + product.panel_bytes, Kernel::kStepBytes, tiles);
  }
  const auto distance = static_cast<int>(std::min<int64_t>(
      (kLaterBytes + product.panel_bytes - 1) / product.panel_bytes, product.panel_count));
  const std::byte* later = panel + distance * product.panel_bytes;
  if (p + distance >= product.panel_count && product.after != nullptr) {
    later = product.after + (p + distance - product.panel_count) * product.panel_bytes;
  }
  const std::byte* near = Kernel::kNearBytes == 0 ? nullptr : panel + Kernel::kNearBytes;
  return PanelsAhead::OfStream(near, later, Kernel::kStepBytes);
}

// Panel by panel, so that a panel is read from memory once and then serves all rows from the cache.
template <class Kernel>
void RunProduct(const PanelProduct<typename Kernel::Input>& product) {
  const RowTiles tiles(product.rows, product.row_pairs, Kernel::kTileRows);
  for (int p = 0; p < product.panel_count; ++p) {
    const std::byte* panel = product.panels + p * product.panel_bytes;
    typename Kernel::Tile tile;
    tile.pairs = product.row_pairs;
    tile.columns = std::min(kPanelRows, product.columns - p * kPanelRows);
    PanelsAhead ahead = AheadOf<Kernel>(product, p, tiles.count);
    tile.ahead = &ahead;
    for (int first = 0; first < product.rows; first += tiles.height) {
      const int rows = std::min(tiles.height, product.rows - first);
      PlaceTile(product, p, first, rows, tiles.forms, 0, tile);
      RunTile<Kernel>(rows * tiles.forms, panel, product.in_width, tile);
    }
  }
}

}  // namespace remontoir
