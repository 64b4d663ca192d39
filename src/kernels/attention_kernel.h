// The attention kernel in the words of an instruction set: bands of query rows against a partial's
// keys, tile by tile.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/attention_band.h"
#include "kernels/attention_places.h"
#include "kernels/attention_products.h"
#include "kernels/kernel_table.h"
#include "kernels/row_tiles.h"

namespace remontoir {

template <class Words>
class AttentionKernel {
 public:
  static void Install(KernelTable* table) {
    table->attention_partial[static_cast<size_t>(DType::kF32)] = &Partial<DType::kF32>;
    table->attention_partial[static_cast<size_t>(DType::kF16)] = &Partial<DType::kF16>;
    table->attention_partial[static_cast<size_t>(DType::kBF16)] = &Partial<DType::kBF16>;
    table->attention_partial[static_cast<size_t>(DType::kQ8_0)] = &Partial<DType::kQ8_0>;
    table->merge_partial = &MergePartial;
    table->finish_rows = &FinishRows;
  }

  template <DType kType>
  static void Partial(const AttentionPartial& partial) {
    Band band;
    for (int first = 0; first < partial.row_count; first += Band::kRowsMax) {
      const Seen seen = Begin(partial, first, &band);
      if (partial.panels == nullptr) {
        RunPages<kType>(partial, seen, &band);
      } else {
        RunPanels<kType>(partial, seen, &band);
      }
      if (band.fresh) ClearSums(partial, 0, band.rows, &band);
      for (int r = 0; r < band.rows; ++r) {
        partial.states[first + r] = {band.reference[r],
                                     Words::FoldLanes(Words::Load(band.lanes[r]))};
      }
    }
  }

 private:
  using Floats = typename Words::Floats;
  using Band = AttentionBand<Words>;
  using Softmax = AttentionSoftmax<Words>;
  using Products = AttentionProducts<Words>;
  using Keys = typename Products::Keys;

  static constexpr int kLanes = kKvPanelKeys;
  static constexpr int kPanels = kKvPageTokens / kKvPanelKeys;
  static constexpr int kTileRowsMax = Band::kTileRowsMax;
  // Panels, and sixteens of columns, that all tiles of rows take before the next ones: what is read
  // of them stays in the first cache.
  static constexpr int kStepSixteens = 2;

  // The keys that rows of a band see: all see [common, common_end), and nobody what is behind end.
  struct Seen {
    const AttentionRow* rows;
    int32_t common;
    int32_t common_end;
    int32_t end;
  };
  // Rows of a band that see some of a tile of keys, and whether all of it.
  struct Rows {
    int begin;
    int end;
    bool whole;
  };

  // The band of rows from `first` on, which have seen nothing yet.
  static Seen Begin(const AttentionPartial& partial, int first, Band* band) {
    band->rows = std::min(partial.row_count - first, Band::kRowsMax);
    Seen seen = {partial.rows + first, 0, std::numeric_limits<int32_t>::max(), 0};
    const float scale = partial.soft_cap == 0 ? partial.scale : partial.soft_cap;
    const int64_t width = partial.value_width;
    std::fill_n(band->reference, band->rows, SoftmaxState{}.max);
    std::fill_n(band->offset, band->rows, 0.0F);
    std::fill_n(band->settled, band->rows, false);
    for (int r = 0; r < band->rows; ++r) Words::Store(band->lanes[r], Words::Zero());
    for (int r = 0; r < band->rows; ++r) {
      const AttentionRow& row = seen.rows[r];
      band->query[r] = row.query;
      band->sum[r] = partial.sums + (first + r) * width;
      band->factor[r] = scale * scalar::kLog2E * row.score_factor;
      seen.common = std::max(seen.common, row.key_begin);
      seen.common_end = std::min(seen.common_end, row.key_end);
      seen.end = std::max(seen.end, row.key_end);
    }
    band->fresh = true;
    return seen;
  }

  // What no tile has been added to is zeros: rows [begin, end).
  static void ClearSums(const AttentionPartial& partial, int begin, int end, Band* band) {
    if (begin < end) {
      std::fill_n(band->sum[begin], int64_t{end - begin} * partial.value_width, 0.0F);
    }
  }

  // Calls run(first row, integral constant of the height) for tiles of rows [row, end).
  template <class Run>
  static void ForEachTile(int row, int end, const Run& run) {
    // Two thirds of the most rows rather than a few left over.
    constexpr int kLower = kTileRowsMax / 3 * 2;
    const int rows = end - row;
    const bool lower = rows % kTileRowsMax != 0 && rows % kLower == 0;
    while (row < end) {
      const int height = RowTiles<Words>::HeightOf(end - row, lower ? kLower : kTileRowsMax);
      RowTiles<Words>::template AtHeight<kTileRowsMax>(row, height, run);
      row += height;
    }
  }

  static Keys KeysOf(int row, int height, bool whole, const Band& band) {
    if (whole) return {0, 0, kKvPageTokens, kKvPageTokens};
    Keys keys = {kKvPageTokens, 0, kKvPageTokens, 0};
    for (int r = row; r < row + height; ++r) {
      keys.begin = std::min(keys.begin, band.begin[r]);
      keys.common = std::max(keys.common, band.begin[r]);
      keys.common_end = std::min(keys.common_end, band.end[r]);
      keys.end = std::max(keys.end, band.end[r]);
    }
    if (keys.common >= keys.common_end) keys.common = keys.common_end = keys.end;
    return keys;
  }

  // Panels that are asked for one after the other, part by part.
  struct Asking {
    int panel;
    int64_t first;  // byte of that panel
    int64_t part_bytes;
    int64_t panel_bytes;
    int parts_at_once;
  };
  // The next part, or parts, of the panels, which start at panel_at(index).
  template <class PanelAt>
  static void Ask(const PanelAt& panel_at, Asking* asking) {
    for (int i = 0; i < asking->parts_at_once && asking->panel < kPanels; ++i) {
      const int64_t bytes = std::min(asking->part_bytes, asking->panel_bytes - asking->first);
      Products::Prefetch(panel_at(asking->panel) + asking->first, bytes);
      asking->first += bytes;
      if (asking->first < asking->panel_bytes) continue;
      asking->first = 0;
      ++asking->panel;
    }
  }

  // Of each tile of a strip's rows, at the place of its first row.
  using KeysOfTiles = Keys[Band::kStripRows];
  static void FindKeys(const Rows& rows, const Band& band, KeysOfTiles& keys) {
    ForEachTile(rows.begin, rows.end, [&](int row, auto height) {
      keys[row - rows.begin] = KeysOf(row, decltype(height)::value, rows.whole, band);
    });
  }

  static int SixteensOf(int width) { return (width + kLanes - 1) / kLanes; }
  // How many of a tile's sixteens the tiles of rows take at once.
  static int StepOf(const Rows& rows, int sixteens) {
    return rows.end - rows.begin > kTileRowsMax ? kStepSixteens : sixteens;
  }
  // Asking for panels of `width` elements a key in as many parts, of whole lines, as rows take
  // turns with `sixteens`. Few rows ask within their products.
  template <DType kType>
  static Asking AskingOf(const Rows& rows, int sixteens, int width) {
    constexpr int64_t kLineBytes = 64;
    const int count = rows.end - rows.begin;
    if (count <= Products::kAskingRowsMax) return {kPanels, 0, 0, 0, 0};
    const int steps = (sixteens + kStepSixteens - 1) / kStepSixteens;
    const int parts = count > kTileRowsMax ? count / kTileRowsMax * steps : 1;
    const int64_t panel_bytes = int64_t{width} * kLanes * kKvElementBytes<kType>;
    const int64_t lines = (panel_bytes + kLineBytes - 1) / kLineBytes;
    const int parts_per_panel = std::max(1, parts / kPanels);
    const int64_t part_lines = (lines + parts_per_panel - 1) / parts_per_panel;
    return {0, 0, part_lines * kLineBytes, panel_bytes, (kPanels + parts - 1) / parts};
  }

  // Dot products with all panels, while values are asked for: of a page its own, whose rest the
  // processor brings by itself, as they lie side by side; of panels those of the next tile.
  template <DType kType, class Place>
  static void AddKeys(const AttentionPartial& partial, const Place& place, const Rows& rows,
                      const KeysOfTiles& tiles, Asking* asking, Band* band) {
    const int step = StepOf(rows, kPanels);
    for (int panel = 0; panel < kPanels; panel += step) {
      ForEachTile(rows.begin, rows.end, [&](int row, auto height) {
        constexpr int kRows = decltype(height)::value;
        const Keys& keys = tiles[row - rows.begin];
        Products::template AddKeys<kType, Place, kRows>(
            partial, place, std::max(panel, keys.begin / kLanes),
            std::min(panel + step, (keys.end + kLanes - 1) / kLanes), row, band);
        const int width = partial.value_width;
        const auto values_of = [&](int p) {
          if constexpr (Place::kOnePage) return place.template Value<kType>(p * kLanes, width);
          return place.ahead.template Values<kType>(p, width);
        };
        Ask(values_of, asking);
      });
    }
  }

  static void Weigh(const AttentionPartial& partial, const Rows& rows, Band* band) {
    band->moved = false;
    for (int r = rows.begin; r < rows.end; ++r) {
      if (rows.whole && partial.soft_cap == 0) {
        Softmax::template Weigh<true>(r, band);
        continue;
      }
      if (rows.whole) {
        band->begin[r] = 0;
        band->end[r] = kKvPageTokens;
      }
      band->rescale[r] = 1;
      if (band->begin[r] == band->end[r]) continue;
      if (partial.soft_cap != 0) Softmax::Cap(partial, r, band);
      Softmax::template Weigh<false>(r, band);
    }
  }

  // Weighted values of all columns, while the next keys are asked for.
  template <DType kType, class Place>
  static void AddValues(const AttentionPartial& partial, const Place& place, const Rows& rows,
                        const KeysOfTiles& tiles, Asking* asking, Band* band) {
    const int width = partial.value_width;
    const int step = StepOf(rows, SixteensOf(width)) * kLanes;
    for (int column = 0; column < width; column += step) {
      ForEachTile(rows.begin, rows.end, [&](int row, auto height) {
        constexpr int kRows = decltype(height)::value;
        Products::template AddValues<kType, Place, kRows>(partial, place, tiles[row - rows.begin],
                                                          column, std::min(column + step, width),
                                                          row, *band, band->moved);
        Ask([&](int p) { return place.ahead.template Keys<kType>(p, partial.key_width); }, asking);
      });
    }
  }

  // The band's rows against the tile of keys from first_key on.
  template <DType kType, class Place>
  static void RunTile(const AttentionPartial& partial, const Seen& seen, int32_t first_key,
                      const Place& place, Band* band) {
    Rows rows = {0, band->rows,
                 seen.common <= first_key && first_key + kKvPageTokens <= seen.common_end};
    if (!rows.whole) {
      for (int r = 0; r < band->rows; ++r) {
        const int begin = std::clamp(seen.rows[r].key_begin - first_key, 0, kKvPageTokens);
        const int end = std::clamp(seen.rows[r].key_end - first_key, 0, kKvPageTokens);
        band->begin[r] = begin < end ? begin : 0;
        band->end[r] = begin < end ? end : 0;
      }
      while (rows.begin < rows.end && band->end[rows.begin] == 0) ++rows.begin;
      while (rows.begin < rows.end && band->end[rows.end - 1] == 0) --rows.end;
      if (rows.begin == rows.end) return;
    }
    if (band->fresh) {
      ClearSums(partial, 0, rows.begin, band);
      ClearSums(partial, rows.end, band->rows, band);
    }
    Asking values = AskingOf<kType>(rows, kPanels, partial.value_width);
    Asking next_keys = AskingOf<kType>(rows, SixteensOf(partial.value_width), partial.key_width);
    for (int row = rows.begin; row < rows.end; row += Band::kStripRows) {
      const Rows strip = {row, std::min(row + Band::kStripRows, rows.end), rows.whole};
      band->strip = row;
      KeysOfTiles tiles;
      FindKeys(strip, *band, tiles);
      AddKeys<kType>(partial, place, strip, tiles, &values, band);
      Weigh(partial, strip, band);
      AddValues<kType>(partial, place, strip, tiles, &next_keys, band);
    }
    band->fresh = false;
  }

  template <DType kType>
  static void RunPages(const AttentionPartial& partial, const Seen& seen, Band* band) {
    for (int b = 0; b < partial.block_count; ++b) {
      const KeyBlock& block = partial.blocks[b];
      if (block.block * kKvPageTokens >= seen.end) return;
      KeysInPage<Words> place{block.keys, block.values, {}};
      const bool last = b + 1 == partial.block_count;
      const KeyBlock& next = last ? block : partial.blocks[b + 1];
      for (int p = 0; p < kPanels; ++p) {
        place.ahead.panels[p] = last && partial.after != nullptr
                                    ? partial.after[p]
                                    : KeyPanel{next.keys, next.values, p * kLanes};
      }
      if constexpr (kType == DType::kQ8_0) {
        PrefetchScales(place.values, partial.value_width);
        PrefetchScales(place.ahead.panels[0].keys, partial.key_width);
      }
      RunTile<kType>(partial, seen, block.block * kKvPageTokens, place, band);
    }
  }

  template <DType kType>
  static void RunPanels(const AttentionPartial& partial, const Seen& seen, Band* band) {
    for (int first = 0; first < partial.panel_count; first += kTilePanels) {
      if ((partial.panel_begin + first) * kLanes >= seen.end) return;
      const int count = std::min(partial.panel_count - first, kTilePanels);
      KeysInPanels<Words> place{partial.panels + first, count - 1, {}};
      const bool last = first + kTilePanels >= partial.panel_count;
      for (int p = 0; p < kPanels; ++p) {
        place.ahead.panels[p] =
            last && partial.after != nullptr
                ? partial.after[p]
                : partial.panels[std::min(first + kTilePanels + p, partial.panel_count - 1)];
      }
      RunTile<kType>(partial, seen, (partial.panel_begin + first) * kLanes, place, band);
    }
  }

  // Of a whole part: they are few, and each wait for one would be felt.
  [[gnu::always_inline]] static void PrefetchScales(const std::byte* part, int width) {
    Products::Prefetch(part + KvScalesOffset(width),
                       KvPartBytes(DType::kQ8_0, width) - KvScalesOffset(width));
  }

  // sum = sum * old_factor + partial_sum * new_factor
  static void JoinSums(const float* partial_sum, float new_factor, float old_factor, int width,
                       float* sum) {
    const Floats old_factors = Words::Set(old_factor);
    const Floats new_factors = Words::Set(new_factor);
    int d = 0;
    for (; d + kLanes <= width; d += kLanes) {
      const Floats old_sum = Words::Multiply(Words::Load(sum + d), old_factors);
      Words::Store(sum + d, Words::MultiplyAdd(Words::Load(partial_sum + d), new_factors, old_sum));
    }
    for (; d < width; ++d) sum[d] = std::fma(partial_sum[d], new_factor, sum[d] * old_factor);
  }

  static void MergePartial(const SoftmaxState& partial, const float* partial_sum, int value_width,
                           SoftmaxState* state, float* sum) {
    if (partial.sum == 0) return;  // no key seen; a NaN goes on
    const float max = std::max(state->max, partial.max);
    const float old_factor = scalar::Exp2(state->max - max);
    const float new_factor = scalar::Exp2(partial.max - max);
    JoinSums(partial_sum, new_factor, old_factor, value_width, sum);
    state->sum = std::fma(partial.sum, new_factor, state->sum * old_factor);
    state->max = max;
  }

  static void FinishRows(const SoftmaxState* states, const float* sums, int rows, int value_width,
                         const float* sink_logits, float* out) {
    for (int r = 0; r < rows; ++r, sums += value_width, out += value_width) {
      const float* sink = sink_logits == nullptr ? nullptr : sink_logits + r;
      const float factor = scalar::FinishFactor(states[r].max, states[r].sum, sink);
      const Floats factors = Words::Set(factor);
      int d = 0;
      for (; d + kLanes <= value_width; d += kLanes) {
        Words::Store(out + d, Words::Multiply(Words::Load(sums + d), factors));
      }
      for (; d < value_width; ++d) out[d] = sums[d] * factor;
    }
  }
};

}  // namespace remontoir
