// The two products of attention: query rows with a tile of keys, and weights with its values.
#pragma once

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/attention_band.h"
#include "kernels/attention_places.h"
#include "kernels/intrinsics.h"
#include "kernels/row_tiles.h"

namespace remontoir {

template <class Words>
class AttentionProducts {
 public:
  using Band = AttentionBand<Words>;

  // More rows than these have time to ask for the memory that is needed next in turns.
  static constexpr int kAskingRowsMax = 5;

  // Keys of a tile that some rows see: [begin, end). All of them see [common, common_end).
  struct Keys {
    int begin;
    int common;
    int common_end;
    int end;
  };

  // Never faults, whatever the address. Inlined always: a call that only prefetches has no effect
  // that GCC knows, and it drops the call. kNear: into the first-level cache.
  template <bool kNear = false>
  [[gnu::always_inline]] static void Prefetch(const std::byte* at, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), kNear ? _MM_HINT_T0 : _MM_HINT_T1);
    }
  }

  // Dot products of kRows rows from `row` on with the keys of panels [panel, panel_end), into the
  // band's weights.
  template <DType kType, class Place, int kRows>
  static void AddKeys(const AttentionPartial& partial, const Place& place, int panel, int panel_end,
                      int row, Band* band) {
    constexpr int kCount = Tiles::SixteensOf(kRows);
    for (; panel + kCount <= panel_end; panel += kCount) {
      Dots<kType, Place, kRows, kCount>(partial, place, panel, row, band);
    }
    for (; panel < panel_end; ++panel) {
      Dots<kType, Place, kRows, 1>(partial, place, panel, row, band);
    }
  }

  // Columns [column, column_end) of sums = sums * rescale + weights * values, keys in order, for
  // kRows rows from `row` on. `moved`: some rescale is not 1.
  template <DType kType, class Place, int kRows>
  static void AddValues(const AttentionPartial& partial, const Place& place, const Keys& keys,
                        int column, int column_end, int row, const Band& band, bool moved) {
    constexpr int kCount = ColumnSixteensOf(kType, kRows);
    for (; column + kLanes * kCount <= column_end; column += kLanes * kCount) {
      AddColumns<kType, Place, kRows, kCount>(partial, place, keys, column, row, band, moved);
    }
    for (; column + kLanes <= column_end; column += kLanes) {
      AddColumns<kType, Place, kRows, 1>(partial, place, keys, column, row, band, moved);
    }
    for (int r = row; r < row + kRows; ++r) {
      for (int d = column; d < column_end; ++d) {
        AddColumn<kType>(partial, place, d, r, keys, band);
      }
    }
  }

 private:
  using Floats = typename Words::Floats;
  using Tiles = RowTiles<Words>;

  static constexpr int kLanes = kKvPanelKeys;
  static constexpr int kCacheLineBytes = 64;

  // RowTiles::SixteensOf for value columns, which must not go past a block of q8_0 values: a block
  // more would want its weights loaded too.
  static constexpr int ColumnSixteensOf(DType type, int rows) {
    const int sixteens = Tiles::SixteensOf(rows);
    return type == DType::kQ8_0 ? std::min(sixteens, kKvScaleBlock / kLanes) : sixteens;
  }

  // Whether to ask for memory ahead, line for line: half a tile for the first-level cache and a
  // whole one for the second.
  template <int kRows, int kCount>
  static constexpr bool kAsks = kCount > 1 && kRows <= kAskingRowsMax;

  // Of q8_0 keys block by block: scale * the block's product joins the ones before.
  template <DType kType, class Place, int kRows, int kCount>
  [[gnu::noinline]] static void Dots(const AttentionPartial& partial, const Place& place, int panel,
                                     int row, Band* band) {
    constexpr int64_t kStepBytes = kLanes * kKvElementBytes<kType>;
    constexpr int kPlaces = std::min(kCount, Place::kOnePage ? 1 : kTilePanels);
    const int64_t panel_bytes = partial.key_width * kStepBytes;
    const std::byte* at[kPlaces];
    const std::byte* ahead[kPlaces];
    const std::byte* far[kPlaces];
    const std::byte* scales[kPlaces];
#pragma GCC unroll 4
    for (int v = 0; v < kPlaces; ++v) {
      at[v] = place.template Keys<kType>(panel + v, partial.key_width);
      ahead[v] = place.template Value<kType>((panel + v) * kLanes, partial.key_width);
      far[v] = place.ahead.template Keys<kType>(panel + v, partial.key_width);
      scales[v] = place.KeyScales(panel + v, partial.key_width);
    }
    // There are no address registers for more rows, and moving addresses from vector registers, as
    // compilers do, takes turns of multiply-adds: the others are read from memory each time.
    constexpr int kAddressed = 8;
    const float* query[kRows];
    const float* volatile far_query[std::max(1, kRows - kAddressed)];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      query[r] = band->query[row + r];
      if (r >= kAddressed) far_query[r - kAddressed] = query[r];
    }
    const auto query_of = [&](int r) -> const float* {
      return r < kAddressed ? query[r] : far_query[r - kAddressed];
    };
    const int64_t width = partial.key_width;
    const int64_t block = kType == DType::kQ8_0 ? kKvScaleBlock : width;
    for (int64_t first = 0; first < width; first += block) {
      Floats dots[kRows][kCount];
#pragma GCC unroll 16
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
            Prefetch<true>(ahead[v] + d * kAheadBytes, kAheadBytes);
            Prefetch(far[v] + d * kAheadBytes, kAheadBytes);
          }
        }
        Tiles::template MultiplyAdd<kType>([&](int r) { return Words::SetFrom(query_of(r) + d); },
                                           [&](int v) {
                                             if constexpr (Place::kOnePage)
                                               return at[0] + v * panel_bytes;
                                             return at[Place::kOnePage ? 0 : v] + d * kStepBytes;
                                           },
                                           dots);
        if constexpr (Place::kOnePage) at[0] += kStepBytes;
      }
      float* out = *band->Weights(row) + panel * kLanes;
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
#pragma GCC unroll 16
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
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        float* sum = out + r * kKvPageTokens + v * kLanes;
        const Floats before = first ? Words::Zero() : Words::Load(sum);
        Words::Store(sum, Words::MultiplyAdd(scale, dots[r][v], before));
      }
    }
  }

  // The weights of keys [begin, end) times the scales of their values in the block of `column`, for
  // kRows rows from `row` on; of other keys that share a sixteen with them anything.
  template <class Place, int kRows>
  static void ScaleWeights(const Place& place, int value_width, int column, int begin, int end,
                           int row, const Band& band, float (*scaled)[kKvPageTokens]) {
    for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
      const Floats scale =
          Words::template LoadAs<DType::kF16>(place.ValueScales(key, value_width, column));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Floats weights = Words::Load(*band.Weights(row + r) + key);
        Words::Store(scaled[r] + key, Words::Multiply(weights, scale));
      }
    }
  }

  // The values of keys, row by row, and where the next tile's keys and values are asked for.
  struct Run {
    const std::byte* at;
    const std::byte* ahead;
    const std::byte* far;
    int64_t row_bytes;
  };

  // sums += weights * values of keys [key, end), in order.
  template <DType kType, int kRows, int kCount>
  [[gnu::always_inline]] static void AddRun(Run run, const float (*weights)[kKvPageTokens], int key,
                                            int end, Floats (&sums)[kRows][kCount]) {
    constexpr int64_t kSixteenBytes = kLanes * kKvElementBytes<kType>;
    constexpr int64_t kRunBytes = kCount * kSixteenBytes;
#pragma GCC unroll 8
    for (; key < end; ++key, run.at += run.row_bytes) {
      if constexpr (kAsks<kRows, kCount>) {
        Prefetch<true>(run.ahead, kRunBytes);
        Prefetch(run.far, kRunBytes);
        run.ahead += kRunBytes;
        run.far += run.row_bytes;
      }
      Tiles::template MultiplyAdd<kType>([&](int r) { return Words::SetFrom(weights[r] + key); },
                                         [&](int v) { return run.at + v * kSixteenBytes; }, sums);
    }
  }

  // The same for keys that only some of the rows see, row by row and from `column` on: a value that
  // a row doesn't see must not touch it, not even times zero. Each row those of its keys that lie
  // in [key, end).
  template <DType kType, class Place, int kRows, int kCount>
  [[gnu::always_inline]] static void AddEdge(const Place& place, int width, int column,
                                             const float (*weights)[kKvPageTokens],
                                             const int* begins, const int* ends, int key, int end,
                                             Floats (&sums)[kRows][kCount]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int row_end = std::min(end, ends[r]);
      for (int k = std::max(key, begins[r]); k < row_end; ++k) {
        const std::byte* at =
            place.template Value<kType>(k, width) + column * kKvElementBytes<kType>;
        const Floats weight = Words::SetFrom(weights[r] + k);
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) {
          const Floats values =
              Words::template LoadAs<kType>(at + v * kLanes * kKvElementBytes<kType>);
          sums[r][v] = Words::MultiplyAdd(weight, values, sums[r][v]);
        }
      }
    }
  }

  template <DType kType, class Place, int kRows, int kCount>
  [[gnu::noinline]] static void AddColumns(const AttentionPartial& partial, const Place& place,
                                           const Keys& keys, int column, int row, const Band& band,
                                           bool moved) {
    const int width = partial.value_width;
    [[maybe_unused]] alignas(64) float scaled[kRows][kKvPageTokens];
    const float(*weights)[kKvPageTokens] = band.Weights(row);
    if constexpr (kType == DType::kQ8_0) {
      ScaleWeights<Place, kRows>(place, width, column, keys.begin, keys.end, row, band, scaled);
      weights = scaled;
    }
    Floats sums[kRows][kCount];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        sums[r][v] = Words::Zero();
        if (!band.fresh) sums[r][v] = Words::Load(band.sum[row + r] + column + v * kLanes);
      }
    }
    if (moved) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Floats rescale = Words::Set(band.rescale[row + r]);
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) sums[r][v] = Words::Multiply(sums[r][v], rescale);
      }
    }
    if (keys.begin < keys.common) {
      AddEdge<kType>(place, width, column, weights, band.begin + row, band.end + row, keys.begin,
                     keys.common, sums);
    }
    // A page's values lie side by side, those of panels only as far as a panel goes.
    constexpr int64_t kRunBytes = kCount * kLanes * kKvElementBytes<kType>;
    for (int key = keys.common; key < keys.common_end;) {
      const int end = Place::kOnePage ? keys.common_end
                                      : std::min(keys.common_end, (key / kLanes + 1) * kLanes);
      const int64_t column_byte = column * kKvElementBytes<kType>;
      const Run run = {place.template Value<kType>(key, width) + column_byte,
                       place.template KeysAhead<kType>(key, partial.key_width, column, kRunBytes),
                       place.template ValueAhead<kType>(key, width) + column_byte,
                       width * kKvElementBytes<kType>};
      AddRun<kType, kRows, kCount>(run, weights, key, end, sums);
      key = end;
    }
    if (keys.common_end < keys.end) {
      AddEdge<kType>(place, width, column, weights, band.begin + row, band.end + row,
                     keys.common_end, keys.end, sums);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        Words::Store(band.sum[row + r] + column + v * kLanes, sums[r][v]);
      }
    }
  }

  // One of the last columns of a width that is no multiple of sixteen.
  template <DType kType, class Place>
  static void AddColumn(const AttentionPartial& partial, const Place& place, int column, int r,
                        const Keys& keys, const Band& band) {
    const int width = partial.value_width;
    const bool all = keys.begin == keys.common && keys.common_end == keys.end;
    const int end = all ? keys.end : band.end[r];
    float sum = band.fresh ? 0 : band.sum[r][column] * band.rescale[r];
    for (int key = all ? keys.begin : band.begin[r]; key < end; ++key) {
      float weight = (*band.Weights(r))[key];
      if constexpr (kType == DType::kQ8_0) {
        weight *= Tiles::template LoadOne<DType::kF16>(place.ValueScales(key, width, column), 0);
      }
      const float value =
          Tiles::template LoadOne<kType>(place.template Value<kType>(key, width), column);
      sum = std::fma(weight, value, sum);
    }
    band.sum[r][column] = sum;
  }
};

}  // namespace remontoir
