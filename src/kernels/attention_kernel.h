// The attention kernel in the words of an instruction set: a few query rows against a page of keys.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/intrinsics.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"
#include "tensor/half.h"

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
    Tile tile;
    for (int b = 0; b < partial.block_count; ++b) {
      const KeyBlock& block = partial.blocks[b];
      const int32_t first_key = block.block * kKvPageTokens;
      tile.values_ahead = block.values;
      const bool last = b + 1 == partial.block_count;
      tile.keys_ahead = last ? partial.keys_after : partial.blocks[b + 1].keys;
      if (tile.keys_ahead == nullptr) tile.keys_ahead = block.keys;
      if constexpr (kType == DType::kQ8_0) {
        PrefetchScales(tile.values_ahead, partial.value_width);
        PrefetchScales(tile.keys_ahead, partial.key_width);
      }
      for (int first = 0; first < partial.row_count; first += height) {
        int rows = 0;
        for (int r = first; r < std::min(first + height, partial.row_count); ++r) {
          const AttentionRow& row = partial.rows[r];
          tile.begin[rows] = std::clamp(row.key_begin - first_key, 0, kKvPageTokens);
          tile.end[rows] = std::clamp(row.key_end - first_key, 0, kKvPageTokens);
          if (tile.begin[rows] >= tile.end[rows]) continue;
          tile.query[rows] = row.query;
          tile.score_factor[rows] = row.score_factor;
          tile.sum[rows] = partial.sums + static_cast<int64_t>(r) * width;
          tile.state[rows] = partial.states + r;
          ++rows;
        }
        RunRows<kType>(rows, partial, block, &tile);
      }
    }
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;

  static constexpr int kLanes = kKvPanelKeys;
  static constexpr int kTileRowsMax = 6;
  static constexpr int kPanels = kKvPageTokens / kKvPanelKeys;
  static constexpr int kCacheLineBytes = 64;
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  // Heights that the tiles are compiled for; other counts of rows are cut into these.
  static constexpr int HeightOf(int rows) {
    for (const int height : {6, 4, 3, 2}) {
      if (height <= rows) return height;
    }
    return 1;
  }
  // Sixteens (panels of keys, or runs of value columns) that a tile of so many rows works on at
  // once: as many as the registers hold sums for.
  static constexpr int SixteensOf(int rows) {
    int sixteens = 4;
    while (sixteens > 1 && sixteens * rows > Words::kAccumulators) sixteens /= 2;
    return sixteens;
  }

  // The same for value columns, which must not go past a block of q8_0 values: a block more would
  // want its weights loaded too.
  static constexpr int ColumnSixteensOf(DType type, int rows) {
    const int sixteens = SixteensOf(rows);
    return type == DType::kQ8_0 ? std::min(sixteens, kKvScaleBlock / kLanes) : sixteens;
  }

  static constexpr int64_t ElementBytes(DType type) {
    return type == DType::kF32 ? 4 : type == DType::kQ8_0 ? 1 : 2;
  }
  static constexpr int64_t kScaleBytes = 2;  // a float16

  // What some rows are doing with one block.
  struct Tile {
    // Memory to ask for while there is arithmetic to do: few rows are bound by waiting for it. The
    // values of the block while its keys are read, and then the next block's keys, line for line.
    const std::byte* values_ahead;
    const std::byte* keys_ahead;
    const float* query[kTileRowsMax];
    float* sum[kTileRowsMax];
    SoftmaxState* state[kTileRowsMax];
    int begin[kTileRowsMax];  // keys of the block that the row sees
    int end[kTileRowsMax];
    float score_factor[kTileRowsMax];
    float rescale[kTileRowsMax];  // of the sums so far
    alignas(64) float weights[kTileRowsMax][kKvPageTokens];
  };

  // Never faults, whatever the address.
  static void Prefetch(const std::byte* at, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kCacheLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    }
  }

  // Of a whole part: they are few, and each wait for one would be felt.
  static void PrefetchScales(const std::byte* part, int width) {
    Prefetch(part + KvScalesOffset(width),
             KvPartBytes(DType::kQ8_0, width) - KvScalesOffset(width));
  }

  template <DType kType>
  static float LoadOne(const std::byte* at, int64_t index) {
    at += index * ElementBytes(kType);
    if constexpr (kType == DType::kF32) {
      float value;
      std::memcpy(&value, at, 4);
      return value;
    } else if constexpr (kType == DType::kQ8_0) {
      return static_cast<int8_t>(*at);
    } else {
      uint16_t bits;
      std::memcpy(&bits, at, 2);
      return kType == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
    }
  }

  // The scales of the keys' values in the q8_0 block of a column.
  static const std::byte* BlockScales(const std::byte* values, int value_width, int column) {
    return values + KvScalesOffset(value_width) +
           int64_t{column / kKvScaleBlock} * kKvPageTokens * kScaleBytes;
  }

  // sums[r][v] += row(r) * (the sixteen elements at vector(v)). Whatever there is less of stays in
  // registers, so that the sums fill the rest of them.
  template <DType kType, int kRows, int kVectors, class Row, class Vector>
  static void MultiplyAdd(const Row& row, const Vector& vector, Floats (&sums)[kRows][kVectors]) {
    if constexpr (kRows < kVectors * Words::kRegisters) {
      Floats rows[kRows];
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) rows[r] = row(r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Words::template AddProducts<kType>(rows, vector(v), v, sums);
      }
    } else {
      Floats vectors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) vectors[v] = Words::template LoadAs<kType>(vector(v));
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Floats x = row(r);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = Words::MultiplyAdd(x, vectors[v], sums[r][v]);
        }
      }
    }
  }

  // Dot products of kRows rows from `row` on with the keys of kCount panels from `panel` on, into
  // tile->weights. Of q8_0 keys block by block: scale * the block's product joins the ones before.
  template <DType kType, int kRows, int kCount>
  [[gnu::noinline]] static void Dots(const AttentionPartial& partial, const std::byte* keys,
                                     int panel, int row, Tile* tile) {
    constexpr int64_t kStepBytes = kLanes * ElementBytes(kType);
    const int64_t panel_bytes = partial.key_width * kStepBytes;
    const std::byte* at = keys + panel * panel_bytes;
    const std::byte* ahead = tile->values_ahead + panel * panel_bytes;
    const float* query[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) query[r] = tile->query[row + r];
    const int64_t width = partial.key_width;
    const int64_t block = kType == DType::kQ8_0 ? kKvScaleBlock : width;
    const std::byte* scales =
        keys + KvScalesOffset(partial.key_width) + panel * kLanes * kScaleBytes;
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
        if constexpr (kCount > 1) Prefetch(ahead + d * kCount * kStepBytes, kCount * kStepBytes);
        MultiplyAdd<kType>([&](int r) { return Words::SetFrom(query[r] + d); },
                           [&](int v) { return at + v * panel_bytes; }, dots);
        at += kStepBytes;
      }
      float* out = tile->weights[row] + panel * kLanes;
      if constexpr (kType == DType::kQ8_0) {
        JoinDots<kRows, kCount>(scales, first == 0, out, dots);
        scales += kKvPageTokens * kScaleBytes;
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
  template <int kRows, int kCount>
  static void JoinDots(const std::byte* scales, bool first, float* out,
                       const Floats (&dots)[kRows][kCount]) {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      const Floats scale = Words::template LoadAs<DType::kF16>(scales + v * kLanes * kScaleBytes);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        float* at = out + r * kKvPageTokens + v * kLanes;
        const Floats before = first ? Words::Zero() : Words::Load(at);
        Words::Store(at, Words::MultiplyAdd(scale, dots[r][v], before));
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
    MoveState(max, reference, lanes, row, tile);
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
      MoveState(max[r], reference, lanes, row + r, tile);
    }
  }

  static void MoveState(float max, float reference, Floats lanes, int row, Tile* tile) {
    SoftmaxState& state = *tile->state[row];
    // 2^0 is 1: mostly the maximum stays where it is.
    const float rescale = state.max == reference ? 1.0F : scalar::Exp2(state.max - reference);
    state.sum = std::fma(state.sum, rescale, Words::FoldLanes(lanes));
    state.max = max;
    tile->rescale[row] = rescale;
  }

  // The weights of keys [begin, end) times the scales of their values in the block of `column`, for
  // rows [row, row + kRows); of other keys that share a sixteen with them anything.
  template <int kRows>
  static void ScaleWeights(const std::byte* values, int value_width, int column, int begin, int end,
                           int row, const Tile& tile, float (*scaled)[kKvPageTokens]) {
    const std::byte* scales = BlockScales(values, value_width, column);
    for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
      const Floats scale = Words::template LoadAs<DType::kF16>(scales + key * kScaleBytes);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Floats weights = Words::Load(tile.weights[row + r] + key);
        Words::Store(scaled[r] + key, Words::Multiply(weights, scale));
      }
    }
  }

  // Columns [column, column + 16 * kCount) of sums = sums * rescale + weights * values, keys in
  // order, for rows [row, row + kRows).
  template <DType kType, int kRows, int kCount>
  [[gnu::noinline]] static void AddColumns(const std::byte* values, int value_width, int column,
                                           int begin, int end, int row, const Tile& tile) {
    [[maybe_unused]] alignas(64) float scaled[kRows][kKvPageTokens];
    const float(*weights)[kKvPageTokens] = tile.weights + row;
    if constexpr (kType == DType::kQ8_0) {
      ScaleWeights<kRows>(values, value_width, column, begin, end, row, tile, scaled);
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
    constexpr int64_t kRunBytes = kCount * kLanes * ElementBytes(kType);
    const int64_t row_bytes = value_width * ElementBytes(kType);
    const std::byte* ahead = tile.keys_ahead + column * kKvPageTokens * ElementBytes(kType);
    const std::byte* at = values + begin * row_bytes + column * ElementBytes(kType);
#pragma GCC unroll 8
    for (int key = begin; key < end; ++key, at += row_bytes) {
      if constexpr (kCount > 1) Prefetch(ahead + key * kRunBytes, kRunBytes);
      MultiplyAdd<kType>([&](int r) { return Words::SetFrom(weights[r] + key); },
                         [&](int v) { return at + v * (kRunBytes / kCount); }, sums);
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
  template <DType kType, int kRows>
  static void AddValues(const std::byte* values, int value_width, int begin, int end, int row,
                        Tile* tile) {
    constexpr int kCount = ColumnSixteensOf(kType, kRows);
    int column = 0;
    for (; column + kLanes * kCount <= value_width; column += kLanes * kCount) {
      AddColumns<kType, kRows, kCount>(values, value_width, column, begin, end, row, *tile);
    }
    for (; column + kLanes <= value_width; column += kLanes) {
      AddColumns<kType, kRows, 1>(values, value_width, column, begin, end, row, *tile);
    }
    for (int r = row; r < row + kRows; ++r) {
      for (int d = column; d < value_width; ++d) {
        float sum = tile->sum[r][d] * tile->rescale[r];
        for (int key = begin; key < end; ++key) {
          const int64_t index = static_cast<int64_t>(key) * value_width + d;
          float weight = tile->weights[r][key];
          if constexpr (kType == DType::kQ8_0) {
            weight *= LoadOne<DType::kF16>(BlockScales(values, value_width, d), key);
          }
          sum = std::fma(weight, LoadOne<kType>(values, index), sum);
        }
        tile->sum[r][d] = sum;
      }
      tile->rescale[r] = 1;
    }
  }

  // Keys that all rows see are added together; those before and after row by row, since a value
  // that a row doesn't see must not touch it, not even times zero.
  template <DType kType, int kRows>
  static void Accumulate(const AttentionPartial& partial, const KeyBlock& block, int row,
                         Tile* tile) {
    const int begin = *std::max_element(tile->begin + row, tile->begin + row + kRows);
    const int end = *std::min_element(tile->end + row, tile->end + row + kRows);
    const int width = partial.value_width;
    if (begin >= end) {
      for (int r = row; r < row + kRows; ++r) {
        AddValues<kType, 1>(block.values, width, tile->begin[r], tile->end[r], r, tile);
      }
      return;
    }
    for (int r = row; r < row + kRows; ++r) {
      if (tile->begin[r] == begin) continue;
      AddValues<kType, 1>(block.values, width, tile->begin[r], begin, r, tile);
    }
    AddValues<kType, kRows>(block.values, width, begin, end, row, tile);
    for (int r = row; r < row + kRows; ++r) {
      if (tile->end[r] == end) continue;
      AddValues<kType, 1>(block.values, width, end, tile->end[r], r, tile);
    }
  }

  // One block for rows [row, row + kRows) of the tile, which all see some of it.
  template <DType kType, int kRows>
  static void RunTile(const AttentionPartial& partial, const KeyBlock& block, int row, Tile* tile) {
    constexpr int kCount = SixteensOf(kRows);
    const int begin = *std::min_element(tile->begin + row, tile->begin + row + kRows);
    const int end = *std::max_element(tile->end + row, tile->end + row + kRows);
    int panel = begin / kLanes;
    const int panel_end = (end + kLanes - 1) / kLanes;
    for (; panel + kCount <= panel_end; panel += kCount) {
      Dots<kType, kRows, kCount>(partial, block.keys, panel, row, tile);
    }
    for (; panel < panel_end; ++panel) {
      Dots<kType, kRows, 1>(partial, block.keys, panel, row, tile);
    }
    // Rows that see all of the block: all of them, mostly.
    const bool whole = *std::max_element(tile->begin + row, tile->begin + row + kRows) == 0 &&
                       *std::min_element(tile->end + row, tile->end + row + kRows) == kKvPageTokens;
    if (whole && partial.soft_cap == 0) {
      WeighWhole<kRows>(partial, row, tile);
    } else {
      for (int r = row; r < row + kRows; ++r) Weigh(partial, r, tile);
    }
    Accumulate<kType, kRows>(partial, block, row, tile);
  }

  template <DType kType>
  static void RunRows(int rows, const AttentionPartial& partial, const KeyBlock& block,
                      Tile* tile) {
    for (int row = 0; row < rows;) {
      const int height = HeightOf(rows - row);
      switch (height) {
        case 6: RunTile<kType, 6>(partial, block, row, tile); break;
        case 4: RunTile<kType, 4>(partial, block, row, tile); break;
        case 3: RunTile<kType, 3>(partial, block, row, tile); break;
        case 2: RunTile<kType, 2>(partial, block, row, tile); break;
        default: RunTile<kType, 1>(partial, block, row, tile); break;
      }
      row += height;
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
