// The attention kernel in the words of an instruction set: a few query rows against a page of keys.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_places.h"
#include "kernels/intrinsics.h"
#include "kernels/kernel_table.h"
#include "kernels/row_tiles.h"
#include "kernels/vector_math.h"

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
  }

  template <DType kType>
  static void Partial(const AttentionPartial& partial) {
    const int width = partial.value_width;
    for (int r = 0; r < partial.row_count; ++r) {
      partial.states[r] = {};
      std::fill_n(partial.sums + static_cast<int64_t>(r) * width, width, 0.0F);
    }
    // Tiles of nearly equal height: 8 rows go as 4 + 4 where 6 fit.
    const int tiles = (partial.row_count + kTileRowsMax - 1) / kTileRowsMax;
    const int height = tiles == 0 ? 0 : (partial.row_count + tiles - 1) / tiles;
    if (partial.panels == nullptr) {
      RunPages<kType>(partial, height);
    } else {
      RunPanels<kType>(partial, height);
    }
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;
  using Tiles = RowTiles<Words>;

  static constexpr int kLanes = kKvPanelKeys;
  static constexpr int kTileRowsMax = 6;
  static constexpr int kPanels = kKvPageTokens / kKvPanelKeys;
  static constexpr int kCacheLineBytes = 64;
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  // RowTiles::SixteensOf for value columns, which must not go past a block of q8_0 values: a block
  // more would want its weights loaded too.
  static constexpr int ColumnSixteensOf(DType type, int rows) {
    const int sixteens = Tiles::SixteensOf(rows);
    return type == DType::kQ8_0 ? std::min(sixteens, kKvScaleBlock / kLanes) : sixteens;
  }

  // What some rows are doing with one tile of keys.
  struct Tile {
    const float* query[kTileRowsMax];
    float* sum[kTileRowsMax];
    SoftmaxState* state[kTileRowsMax];
    int begin[kTileRowsMax];  // keys of the block that the row sees
    int end[kTileRowsMax];
    float score_factor[kTileRowsMax];
    float rescale[kTileRowsMax];  // of the sums so far
    alignas(64) float weights[kTileRowsMax][kKvPageTokens];
  };

  // Whether to ask for memory ahead: full tiles of rows don't wait for it, and each would ask anew.
  template <int kRows, int kCount>
  static constexpr bool kAsks = kCount > 1 && kRows < kTileRowsMax;

  // Never faults, whatever the address. Inlined always: a call that only prefetches has no effect
  // that GCC knows, and it drops the call.
  [[gnu::always_inline]] static void Prefetch(const std::byte* at, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    }
  }

  // Of a whole part: they are few, and each wait for one would be felt.
  [[gnu::always_inline]] static void PrefetchScales(const std::byte* part, int width) {
    Prefetch(part + KvScalesOffset(width),
             KvPartBytes(DType::kQ8_0, width) - KvScalesOffset(width));
  }

  // Dot products of kRows rows from `row` on with the keys of kCount panels from `panel` on, into
  // tile->weights. Of q8_0 keys block by block: scale * the block's product joins the ones before.
  template <DType kType, class Place, int kRows, int kCount>
  [[gnu::noinline]] static void Dots(const AttentionPartial& partial, const Place& place, int panel,
                                     int row, Tile* tile) {
    constexpr int64_t kStepBytes = kLanes * kKvElementBytes<kType>;
    constexpr int kPlaces = std::min(kCount, Place::kOnePage ? 1 : kTilePanels);
    const int64_t panel_bytes = partial.key_width * kStepBytes;
    const std::byte* at[kPlaces];
    const std::byte* ahead[kPlaces];
    const std::byte* scales[kPlaces];
#pragma GCC unroll 4
    for (int v = 0; v < kPlaces; ++v) {
      at[v] = place.template Keys<kType>(panel + v, partial.key_width);
      ahead[v] = place.template Value<kType>((panel + v) * kLanes, partial.key_width);
      scales[v] = place.KeyScales(panel + v, partial.key_width);
    }
    const float* query[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) query[r] = tile->query[row + r];
    const int64_t width = partial.key_width;
    const int64_t block = kType == DType::kQ8_0 ? kKvScaleBlock : width;
    for (int64_t first = 0; first < width; first += block) {
      Floats dots[kRows][kCount];
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) dots[r][v] = Words::Zero();
      }
      const int64_t end = std::min(first + block, width);
#pragma GCC unroll 8
      for (int64_t d = first; d < end; ++d) {
        if constexpr (kAsks<kRows, kCount>) {
#pragma GCC unroll 4
          for (int v = 0; v < kPlaces; ++v) {
            constexpr int64_t kAheadBytes = kCount / kPlaces * kStepBytes;
            Prefetch(ahead[v] + d * kAheadBytes, kAheadBytes);
          }
        }
        Tiles::template MultiplyAdd<kType>([&](int r) { return Words::SetFrom(query[r] + d); },
                                           [&](int v) {
                                             if constexpr (Place::kOnePage)
                                               return at[0] + v * panel_bytes;
                                             return at[Place::kOnePage ? 0 : v] + d * kStepBytes;
                                           },
                                           dots);
        if constexpr (Place::kOnePage) at[0] += kStepBytes;
      }
      float* out = tile->weights[row] + panel * kLanes;
      if constexpr (kType == DType::kQ8_0) {
        JoinDots<kRows, kCount, kPlaces>(scales, first == 0, out, dots);
#pragma GCC unroll 4
        for (int v = 0; v < kPlaces; ++v) scales[v] += kKvPageTokens * kKvScaleBytes;
      } else {
        StoreDots<kRows, kCount>(out, dots);
      }
    }
  }

  template <int kRows, int kCount>
  static void StoreDots(float* out, const Floats (&dots)[kRows][kCount]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        Words::Store(out + r * kKvPageTokens + v * kLanes, dots[r][v]);
      }
    }
  }

  // out[r][v] = scales[v] * dots[r][v] + out[r][v], where `out` counts as zeros for the first
  // block.
  template <int kRows, int kCount, int kPlaces>
  static void JoinDots(const std::byte* const (&scales)[kPlaces], bool first, float* out,
                       const Floats (&dots)[kRows][kCount]) {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      const std::byte* at =
          kPlaces == 1 ? scales[0] + v * kLanes * kKvScaleBytes : scales[kPlaces == 1 ? 0 : v];
      const Floats scale = Words::template LoadAs<DType::kF16>(at);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        float* sum = out + r * kKvPageTokens + v * kLanes;
        const Floats before = first ? Words::Zero() : Words::Load(sum);
        Words::Store(sum, Words::MultiplyAdd(scale, dots[r][v], before));
      }
    }
  }

  // Sixteen scores in log2 units, minus infinity where the row doesn't look.
  static Floats Score(const AttentionPartial& partial, Floats dots, float score_factor, int key,
                      int begin, int end) {
    if (partial.soft_cap == 0) {
      dots = Words::Multiply(dots, Words::Set(partial.scale * scalar::kLog2E * score_factor));
    } else {
      dots = Math::Tanh(Words::Multiply(dots, Words::Set(partial.scale / partial.soft_cap)));
      dots = Words::Multiply(dots, Words::Set(partial.soft_cap * scalar::kLog2E * score_factor));
    }
    return Words::Select(Words::LanesBetween(key, begin, end), dots, Words::Set(kNoScore));
  }

  // Turns a row's dot products into softmax weights, moves its state to the new maximum and notes
  // the factor that brings older sums there.
  static void Weigh(const AttentionPartial& partial, int row, Tile* tile) {
    const int begin = tile->begin[row];
    const int end = tile->end[row];
    float* weights = tile->weights[row];
    Floats largest = Words::Set(kNoScore);
    for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
      const Floats score =
          Score(partial, Words::Load(weights + key), tile->score_factor[row], key, begin, end);
      Words::Store(weights + key, score);
      largest = Words::Larger(score, largest);  // a NaN score leaves the maximum alone
    }
    SoftmaxState& state = *tile->state[row];
    const float max = std::max(state.max, Words::LargestLane(largest));
    // Scores that are all minus infinity weigh nothing.
    const float reference = max == kNoScore ? 0.0F : max;
    Floats lanes = Words::Zero();
    for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
      const Floats score = Words::Subtract(Words::Load(weights + key), Words::Set(reference));
      const Floats weight = Math::Exp2UpToZero(score);
      Words::Store(weights + key, weight);
      lanes = Words::Add(lanes, weight);
    }
    // 2^0 is 1: mostly the maximum stays where it is.
    const float rescale = state.max == reference ? 1.0F : scalar::Exp2(state.max - reference);
    MoveState(max, rescale, lanes, row, tile);
  }

  // The same for rows that all see the whole block, without a soft cap: all rows' scores first, so
  // that no row's weights wait for the search of its maximum.
  template <int kRows>
  [[gnu::noinline]] static void WeighWhole(const AttentionPartial& partial, int row, Tile* tile) {
    float max[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Floats factor =
          Words::Set(partial.scale * scalar::kLog2E * tile->score_factor[row + r]);
      float* weights = tile->weights[row + r];
      Floats largest = Words::Set(kNoScore);
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
        const Floats score = Words::Multiply(Words::Load(weights + i * kLanes), factor);
        Words::Store(weights + i * kLanes, score);
        largest = Words::Larger(score, largest);
      }
      max[r] = std::max(tile->state[row + r]->max, Words::LargestLane(largest));
    }
    // The way of the older sums to the new maxima: mostly 2^0, and the same for all rows at once.
    alignas(64) float rescale[kLanes] = {};
    for (int r = 0; r < kRows; ++r) {
      const float reference = max[r] == kNoScore ? 0.0F : max[r];
      rescale[r] = tile->state[row + r]->max - reference;
    }
    Words::Store(rescale, Math::Exp2UpToZero(Words::Load(rescale)));
    for (int r = 0; r < kRows; ++r) {
      float* weights = tile->weights[row + r];
      const float reference = max[r] == kNoScore ? 0.0F : max[r];
      const Floats references = Words::Set(reference);
      Floats lanes = Words::Zero();
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
        const Floats score = Words::Load(weights + i * kLanes);
        const Floats weight = Math::Exp2UpToZero(Words::Subtract(score, references));
        Words::Store(weights + i * kLanes, weight);
        lanes = Words::Add(lanes, weight);
      }
      MoveState(max[r], rescale[r], lanes, row + r, tile);
    }
  }

  static void MoveState(float max, float rescale, Floats lanes, int row, Tile* tile) {
    SoftmaxState& state = *tile->state[row];
    state.sum = std::fma(state.sum, rescale, Words::FoldLanes(lanes));
    state.max = max;
    tile->rescale[row] = rescale;
  }

  // The weights of keys [begin, end) times the scales of their values in the block of `column`, for
  // rows [row, row + kRows); of other keys that share a sixteen with them anything.
  template <class Place, int kRows>
  static void ScaleWeights(const Place& place, int value_width, int column, int begin, int end,
                           int row, const Tile& tile, float (*scaled)[kKvPageTokens]) {
    for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
      const Floats scale =
          Words::template LoadAs<DType::kF16>(place.ValueScales(key, value_width, column));
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Floats weights = Words::Load(tile.weights[row + r] + key);
        Words::Store(scaled[r] + key, Words::Multiply(weights, scale));
      }
    }
  }

  // sums += weights * values of keys [begin, end), in order; the values lie row by row from `at`
  // on.
  template <DType kType, int kRows, int kCount>
  [[gnu::always_inline]] static void AddKeys(const std::byte* at, int64_t row_bytes,
                                             const std::byte* ahead,
                                             const float (*weights)[kKvPageTokens], int begin,
                                             int end, Floats (&sums)[kRows][kCount]) {
    constexpr int64_t kSixteenBytes = kLanes * kKvElementBytes<kType>;
    constexpr int64_t kRunBytes = kCount * kSixteenBytes;
#pragma GCC unroll 8
    for (int key = begin; key < end; ++key, at += row_bytes) {
      if constexpr (kAsks<kRows, kCount>) Prefetch(ahead + (key - begin) * kRunBytes, kRunBytes);
      Tiles::template MultiplyAdd<kType>([&](int r) { return Words::SetFrom(weights[r] + key); },
                                         [&](int v) { return at + v * kSixteenBytes; }, sums);
    }
  }

  // Columns [column, column + 16 * kCount) of sums = sums * rescale + weights * values, keys in
  // order, for rows [row, row + kRows).
  template <DType kType, class Place, int kRows, int kCount>
  [[gnu::noinline]] static void AddColumns(const AttentionPartial& partial, const Place& place,
                                           int column, int begin, int end, int row,
                                           const Tile& tile) {
    const int width = partial.value_width;
    [[maybe_unused]] alignas(64) float scaled[kRows][kKvPageTokens];
    const float(*weights)[kKvPageTokens] = tile.weights + row;
    if constexpr (kType == DType::kQ8_0) {
      ScaleWeights<Place, kRows>(place, width, column, begin, end, row, tile, scaled);
      weights = scaled;
    }
    Floats sums[kRows][kCount];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Floats rescale = Words::Set(tile.rescale[row + r]);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        sums[r][v] = Words::Multiply(Words::Load(tile.sum[row + r] + column + v * kLanes), rescale);
      }
    }
    const int64_t column_bytes = column * kKvElementBytes<kType>;
    const int64_t row_bytes = width * kKvElementBytes<kType>;
    constexpr int64_t kRunBytes = kCount * kLanes * kKvElementBytes<kType>;
    // A page's values lie side by side, those of panels only as far as a panel goes.
    for (int first = begin; first < end;) {
      const int last = Place::kOnePage ? end : std::min(end, (first / kLanes + 1) * kLanes);
      AddKeys<kType, kRows, kCount>(
          place.template Value<kType>(first, width) + column_bytes, row_bytes,
          place.template KeysAhead<kType>(first, partial.key_width, column, kRunBytes), weights,
          first, last, sums);
      first = last;
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        Words::Store(tile.sum[row + r] + column + v * kLanes, sums[r][v]);
      }
    }
  }

  // The same for all columns; afterwards the rows' sums stand at their new maximum.
  template <DType kType, class Place, int kRows>
  static void AddValues(const AttentionPartial& partial, const Place& place, int begin, int end,
                        int row, Tile* tile) {
    constexpr int kCount = ColumnSixteensOf(kType, kRows);
    const int width = partial.value_width;
    int column = 0;
    for (; column + kLanes * kCount <= width; column += kLanes * kCount) {
      AddColumns<kType, Place, kRows, kCount>(partial, place, column, begin, end, row, *tile);
    }
    for (; column + kLanes <= width; column += kLanes) {
      AddColumns<kType, Place, kRows, 1>(partial, place, column, begin, end, row, *tile);
    }
    for (int r = row; r < row + kRows; ++r) {
      for (int d = column; d < width; ++d) {
        float sum = tile->sum[r][d] * tile->rescale[r];
        for (int key = begin; key < end; ++key) {
          float weight = tile->weights[r][key];
          if constexpr (kType == DType::kQ8_0) {
            weight *= Tiles::template LoadOne<DType::kF16>(place.ValueScales(key, width, d), 0);
          }
          sum = std::fma(weight,
                         Tiles::template LoadOne<kType>(place.template Value<kType>(key, width), d),
                         sum);
        }
        tile->sum[r][d] = sum;
      }
      tile->rescale[r] = 1;
    }
  }

  // Keys that all rows see are added together; those before and after row by row, since a value
  // that a row doesn't see must not touch it, not even times zero.
  template <DType kType, class Place, int kRows>
  static void Accumulate(const AttentionPartial& partial, const Place& place, int row, Tile* tile) {
    const int begin = *std::max_element(tile->begin + row, tile->begin + row + kRows);
    const int end = *std::min_element(tile->end + row, tile->end + row + kRows);
    if (begin >= end) {
      for (int r = row; r < row + kRows; ++r) {
        AddValues<kType, Place, 1>(partial, place, tile->begin[r], tile->end[r], r, tile);
      }
      return;
    }
    for (int r = row; r < row + kRows; ++r) {
      if (tile->begin[r] == begin) continue;
      AddValues<kType, Place, 1>(partial, place, tile->begin[r], begin, r, tile);
    }
    AddValues<kType, Place, kRows>(partial, place, begin, end, row, tile);
    for (int r = row; r < row + kRows; ++r) {
      if (tile->end[r] == end) continue;
      AddValues<kType, Place, 1>(partial, place, end, tile->end[r], r, tile);
    }
  }

  // One tile of keys for rows [row, row + kRows) of the tile, which all see some of it.
  template <DType kType, class Place, int kRows>
  static void RunTile(const AttentionPartial& partial, const Place& place, int row, Tile* tile) {
    constexpr int kCount = Tiles::SixteensOf(kRows);
    const int begin = *std::min_element(tile->begin + row, tile->begin + row + kRows);
    const int end = *std::max_element(tile->end + row, tile->end + row + kRows);
    int panel = begin / kLanes;
    const int panel_end = (end + kLanes - 1) / kLanes;
    for (; panel + kCount <= panel_end; panel += kCount) {
      Dots<kType, Place, kRows, kCount>(partial, place, panel, row, tile);
    }
    for (; panel < panel_end; ++panel) {
      Dots<kType, Place, kRows, 1>(partial, place, panel, row, tile);
    }
    // Rows that see all of the tile: all of them, mostly.
    const bool whole = *std::max_element(tile->begin + row, tile->begin + row + kRows) == 0 &&
                       *std::min_element(tile->end + row, tile->end + row + kRows) == kKvPageTokens;
    if (whole && partial.soft_cap == 0) {
      WeighWhole<kRows>(partial, row, tile);
    } else {
      for (int r = row; r < row + kRows; ++r) Weigh(partial, r, tile);
    }
    Accumulate<kType, Place, kRows>(partial, place, row, tile);
  }

  // `rows` rows that see some of the tile.
  template <DType kType, class Place>
  static void RunRows(int rows, const AttentionPartial& partial, const Place& place, Tile* tile) {
    for (int row = 0; row < rows;) {
      const int height = Tiles::HeightOf(rows - row, kTileRowsMax);
      switch (height) {
        case 6: RunTile<kType, Place, 6>(partial, place, row, tile); break;
        case 4: RunTile<kType, Place, 4>(partial, place, row, tile); break;
        case 3: RunTile<kType, Place, 3>(partial, place, row, tile); break;
        case 2: RunTile<kType, Place, 2>(partial, place, row, tile); break;
        default: RunTile<kType, Place, 1>(partial, place, row, tile); break;
      }
      row += height;
    }
  }

  // All rows against the tile of keys from first_key on, `height` of them at once.
  template <DType kType, class Place>
  static void RunKeys(const AttentionPartial& partial, int height, int32_t first_key,
                      const Place& place) {
    Tile tile;
    for (int first = 0; first < partial.row_count; first += height) {
      int rows = 0;
      for (int r = first; r < std::min(first + height, partial.row_count); ++r) {
        const AttentionRow& row = partial.rows[r];
        tile.begin[rows] = std::clamp(row.key_begin - first_key, 0, kKvPageTokens);
        tile.end[rows] = std::clamp(row.key_end - first_key, 0, kKvPageTokens);
        if (tile.begin[rows] >= tile.end[rows]) continue;
        tile.query[rows] = row.query;
        tile.score_factor[rows] = row.score_factor;
        tile.sum[rows] = partial.sums + static_cast<int64_t>(r) * partial.value_width;
        tile.state[rows] = partial.states + r;
        ++rows;
      }
      RunRows<kType, Place>(rows, partial, place, &tile);
    }
  }

  // Behind the last key that some row sees.
  static int32_t KeyEnd(const AttentionPartial& partial) {
    int32_t end = 0;
    for (int r = 0; r < partial.row_count; ++r) end = std::max(end, partial.rows[r].key_end);
    return end;
  }

  template <DType kType>
  static void RunPages(const AttentionPartial& partial, int height) {
    const int32_t key_end = KeyEnd(partial);
    for (int b = 0; b < partial.block_count; ++b) {
      const KeyBlock& block = partial.blocks[b];
      if (block.block * kKvPageTokens >= key_end) return;
      KeysInPage<Words> place{block.keys, block.values, partial.keys_after};
      if (b + 1 < partial.block_count) place.next_keys = partial.blocks[b + 1].keys;
      if (place.next_keys == nullptr) place.next_keys = block.keys;
      if constexpr (kType == DType::kQ8_0) {
        PrefetchScales(place.values, partial.value_width);
        PrefetchScales(place.next_keys, partial.key_width);
      }
      RunKeys<kType>(partial, height, block.block * kKvPageTokens, place);
    }
  }

  template <DType kType>
  static void RunPanels(const AttentionPartial& partial, int height) {
    const int32_t key_end = KeyEnd(partial);
    for (int first = 0; first < partial.panel_count; first += kTilePanels) {
      if ((partial.panel_begin + first) * kLanes >= key_end) return;
      const int count = std::min(partial.panel_count - first, kTilePanels);
      KeysInPanels<Words> place{partial.panels + first, partial.panels + first, count - 1,
                                count - 1};
      if (const int after = partial.panel_count - first - kTilePanels; after > 0) {
        place.next_panels += kTilePanels;
        place.next_last = std::min(after, kTilePanels) - 1;
      }
      RunKeys<kType>(partial, height, (partial.panel_begin + first) * kLanes, place);
    }
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
};

}  // namespace remontoir
