// Attention with AVX2, FMA and F16C: up to six query rows against a page of 64 keys.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/install.h"
#include "kernels/math_avx2.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

constexpr int kTileRows = 6;
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Running sums fill the registers: two vectors a row, four where there are few rows to hide
// latency.
constexpr int VectorsOf(int rows) { return rows <= 3 ? 4 : 2; }

constexpr int64_t ElementBytes(DType type) { return type == DType::kF32 ? 4 : 2; }

// Never faults, whatever the address.
inline void Prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

template <DType kType>
inline __m256 LoadEight(const std::byte* at, int64_t index) {
  at += index * ElementBytes(kType);
  if constexpr (kType == DType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  } else {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kType == DType::kF16) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

template <DType kType>
inline float LoadOne(const std::byte* at, int64_t index) {
  at += index * ElementBytes(kType);
  if constexpr (kType == DType::kF32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  } else {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return kType == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
  }
}

// What up to six rows are doing with one block.
struct Tile {
  // Memory to ask for while there is arithmetic to do: few rows are bound by waiting for it. The
  // values of the block while its keys are read, and then the next block's keys, line for line.
  const std::byte* values_ahead;
  const std::byte* keys_ahead;
  const float* query[kTileRows];
  float* sum[kTileRows];
  SoftmaxState* state[kTileRows];
  int begin[kTileRows];  // keys of the block that the row sees
  int end[kTileRows];
  float rescale[kTileRows];  // of the sums so far
  alignas(32) float weights[kTileRows][kKvPageTokens];
};

// sums[r][v] += row(r) * vector(v). Whatever there is less of stays in registers, so that the sums
// fill the rest of them.
template <int kRows, int kVectors, class Row, class Vector>
inline void MultiplyAdd(const Row& row, const Vector& vector, __m256 (&sums)[kRows][kVectors]) {
  if constexpr (kRows < kVectors) {
    __m256 rows[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) rows[r] = row(r);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const __m256 x = vector(v);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][v] = _mm256_fmadd_ps(rows[r], x, sums[r][v]);
    }
  } else {
    __m256 vectors[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) vectors[v] = vector(v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = row(r);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_fmadd_ps(x, vectors[v], sums[r][v]);
    }
  }
}

// Dot products of the rows with the keys of kPanels panels from `panel` on, into tile->weights.
template <DType kType, int kRows, int kPanels>
inline void Dots(const AttentionPartial& partial, const std::byte* keys, int panel, Tile* tile) {
  __m256 dots[kRows][2 * kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kPanels; ++v) dots[r][v] = _mm256_setzero_ps();
  }
  const int64_t panel_size = static_cast<int64_t>(partial.key_width) * kKvPanelKeys;
  const std::byte* at = keys + panel * panel_size * ElementBytes(kType);
  const int64_t offset = at - keys;
  for (int64_t d = 0; d < partial.key_width; ++d) {
    if constexpr (kPanels == 2) {
      Prefetch(tile->values_ahead + offset + d * kPanels * kKvPanelKeys * ElementBytes(kType));
    }
    MultiplyAdd<kRows, 2 * kPanels>([&](int r) { return _mm256_broadcast_ss(tile->query[r] + d); },
                                    [&](int v) {
                                      return LoadEight<kType>(
                                          at, v / 2 * panel_size + d * kKvPanelKeys + v % 2 * 8);
                                    },
                                    dots);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kPanels; ++v) {
      _mm256_store_ps(tile->weights[r] + panel * kKvPanelKeys + 8 * v, dots[r][v]);
    }
  }
}

// All ones in the lanes whose key, counted from `first`, lies in [begin, end).
inline __m256 VisibleLanes(int first, int begin, int end) {
  const __m256i key =
      _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i from_begin = _mm256_cmpgt_epi32(key, _mm256_set1_epi32(begin - 1));
  const __m256i before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), key);
  return _mm256_castsi256_ps(_mm256_and_si256(from_begin, before_end));
}

// Turns a row's dot products into softmax weights, moves its state to the new maximum and notes the
// factor that brings older sums there.
inline void Weigh(const AttentionPartial& partial, int row, Tile* tile) {
  const int begin = tile->begin[row];
  const int end = tile->end[row];
  SoftmaxState& state = *tile->state[row];
  float* weights = tile->weights[row];
  const int first = begin / 8 * 8;
  const __m256 none = _mm256_set1_ps(kNoScore);
  const bool capped = partial.soft_cap != 0;
  const __m256 factor =
      _mm256_set1_ps(capped ? partial.scale / partial.soft_cap : partial.scale * scalar::kLog2E);
  const __m256 cap = _mm256_set1_ps(partial.soft_cap * scalar::kLog2E);
  __m256 largest = none;
  for (int key = first; key < end; key += 8) {
    __m256 score = _mm256_mul_ps(_mm256_load_ps(weights + key), factor);
    if (capped) score = _mm256_mul_ps(avx2::Tanh(score), cap);
    score = _mm256_blendv_ps(none, score, VisibleLanes(key, begin, end));
    _mm256_store_ps(weights + key, score);
    largest = _mm256_max_ps(score, largest);  // a NaN score leaves the maximum alone
  }
  const float max = std::max(state.max, avx2::LargestLane(largest));
  // Scores that are all minus infinity weigh nothing.
  const __m256 reference = _mm256_set1_ps(max == kNoScore ? 0.0F : max);
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int key = first; key < end; key += 8) {
    const __m256 weight = avx2::Exp2(_mm256_sub_ps(_mm256_load_ps(weights + key), reference));
    _mm256_store_ps(weights + key, weight);
    __m256& lane = lanes[key / 8 % 2];
    lane = _mm256_add_ps(lane, weight);
  }
  const float rescale = scalar::Exp2(state.max - _mm256_cvtss_f32(reference));
  state.sum = std::fma(state.sum, rescale, avx2::FoldLanes(lanes[0], lanes[1]));
  state.max = max;
  tile->rescale[row] = rescale;
}

// Columns [column, column + 8 * kVectors) of sums = sums * rescale + weights * values, keys in
// order, for rows [row, row + kRows).
template <DType kType, int kRows, int kVectors>
inline void AddColumns(const std::byte* values, int value_width, int column, int begin, int end,
                       int row, const Tile& tile) {
  __m256 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m256 rescale = _mm256_set1_ps(tile.rescale[row + r]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = _mm256_mul_ps(_mm256_loadu_ps(tile.sum[row + r] + column + 8 * v), rescale);
    }
  }
  const std::byte* keys_ahead = tile.keys_ahead + column * kKvPageTokens * ElementBytes(kType);
  for (int key = begin; key < end; ++key) {
    const int64_t first = static_cast<int64_t>(key) * value_width + column;
    if constexpr (kVectors == 4) Prefetch(keys_ahead + key * 8 * kVectors * ElementBytes(kType));
    MultiplyAdd<kRows, kVectors>(
        [&](int r) { return _mm256_broadcast_ss(tile.weights[row + r] + key); },
        [&](int v) { return LoadEight<kType>(values, first + 8 * v); }, sums);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_ps(tile.sum[row + r] + column + 8 * v, sums[r][v]);
    }
  }
}

// The same for all columns; afterwards the rows' sums stand at their new maximum.
template <DType kType, int kRows>
inline void AddValues(const std::byte* values, int value_width, int begin, int end, int row,
                      Tile* tile) {
  constexpr int kVectors = VectorsOf(kRows);
  int column = 0;
  for (; column + 8 * kVectors <= value_width; column += 8 * kVectors) {
    AddColumns<kType, kRows, kVectors>(values, value_width, column, begin, end, row, *tile);
  }
  for (; column + 8 <= value_width; column += 8) {
    AddColumns<kType, kRows, 1>(values, value_width, column, begin, end, row, *tile);
  }
  for (int r = row; r < row + kRows; ++r) {
    for (int d = column; d < value_width; ++d) {
      float sum = tile->sum[r][d] * tile->rescale[r];
      for (int key = begin; key < end; ++key) {
        const int64_t index = static_cast<int64_t>(key) * value_width + d;
        sum = std::fma(tile->weights[r][key], LoadOne<kType>(values, index), sum);
      }
      tile->sum[r][d] = sum;
    }
    tile->rescale[r] = 1;
  }
}

// Keys that all rows see are added together; those before and after row by row, since a value that
// a row doesn't see must not touch it, not even times zero.
template <DType kType, int kRows>
inline void AccumulateTile(const AttentionPartial& partial, const KeyBlock& block, Tile* tile) {
  const int begin = *std::max_element(tile->begin, tile->begin + kRows);
  const int end = *std::min_element(tile->end, tile->end + kRows);
  const int width = partial.value_width;
  if (begin >= end) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      AddValues<kType, 1>(block.values, width, tile->begin[r], tile->end[r], r, tile);
    }
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (tile->begin[r] == begin) continue;
    AddValues<kType, 1>(block.values, width, tile->begin[r], begin, r, tile);
  }
  AddValues<kType, kRows>(block.values, width, begin, end, 0, tile);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (tile->end[r] == end) continue;
    AddValues<kType, 1>(block.values, width, end, tile->end[r], r, tile);
  }
}

// One block for rows [first, first + kRows) that all see some of it.
template <DType kType, int kRows>
void RunTile(const AttentionPartial& partial, const KeyBlock& block, Tile* tile) {
  constexpr int kPanels = VectorsOf(kRows) / 2;
  const int begin = *std::min_element(tile->begin, tile->begin + kRows);
  const int end = *std::max_element(tile->end, tile->end + kRows);
  int panel = begin / kKvPanelKeys;
  const int panel_end = (end + kKvPanelKeys - 1) / kKvPanelKeys;
  for (; panel + kPanels <= panel_end; panel += kPanels) {
    Dots<kType, kRows, kPanels>(partial, block.keys, panel, tile);
  }
  for (; panel < panel_end; ++panel) Dots<kType, kRows, 1>(partial, block.keys, panel, tile);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) Weigh(partial, r, tile);
  AccumulateTile<kType, kRows>(partial, block, tile);
}

template <DType kType, int kRows = kTileRows>
inline void RunTileOf(int rows, const AttentionPartial& partial, const KeyBlock& block,
                      Tile* tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTileOf<kType, kRows - 1>(rows, partial, block, tile);
  }
  RunTile<kType, kRows>(partial, block, tile);
}

template <DType kType>
void Partial(const AttentionPartial& partial) {
  const int width = partial.value_width;
  for (int r = 0; r < partial.row_count; ++r) {
    partial.states[r] = {};
    std::fill_n(partial.sums + static_cast<int64_t>(r) * width, width, 0.0F);
  }
  // Tiles of nearly equal height: 8 rows go as 4 + 4.
  const int tiles = (partial.row_count + kTileRows - 1) / kTileRows;
  const int height = tiles == 0 ? 0 : (partial.row_count + tiles - 1) / tiles;
  Tile tile;
  for (int b = 0; b < partial.block_count; ++b) {
    const KeyBlock& block = partial.blocks[b];
    const int32_t first_key = block.block * kKvPageTokens;
    tile.values_ahead = block.values;
    tile.keys_ahead = partial.blocks[std::min(b + 1, partial.block_count - 1)].keys;
    for (int first = 0; first < partial.row_count; first += height) {
      int rows = 0;
      for (int r = first; r < std::min(first + height, partial.row_count); ++r) {
        const AttentionRow& row = partial.rows[r];
        tile.begin[rows] = std::clamp(row.key_begin - first_key, 0, kKvPageTokens);
        tile.end[rows] = std::clamp(row.key_end - first_key, 0, kKvPageTokens);
        if (tile.begin[rows] >= tile.end[rows]) continue;
        tile.query[rows] = row.query;
        tile.sum[rows] = partial.sums + static_cast<int64_t>(r) * width;
        tile.state[rows] = partial.states + r;
        ++rows;
      }
      if (rows > 0) RunTileOf<kType>(rows, partial, block, &tile);
    }
  }
}

// sum = sum * old_factor + partial_sum * new_factor
void JoinSums(const float* partial_sum, float new_factor, float old_factor, int width, float* sum) {
  const __m256 old_factors = _mm256_set1_ps(old_factor);
  const __m256 new_factors = _mm256_set1_ps(new_factor);
  int d = 0;
  for (; d + 8 <= width; d += 8) {
    const __m256 old_sum = _mm256_mul_ps(_mm256_loadu_ps(sum + d), old_factors);
    _mm256_storeu_ps(sum + d,
                     _mm256_fmadd_ps(_mm256_loadu_ps(partial_sum + d), new_factors, old_sum));
  }
  for (; d < width; ++d) sum[d] = std::fma(partial_sum[d], new_factor, sum[d] * old_factor);
}

void MergePartial(const SoftmaxState& partial, const float* partial_sum, int value_width,
                  SoftmaxState* state, float* sum) {
  if (partial.sum == 0) return;  // no key seen; a NaN goes on
  const float max = std::max(state->max, partial.max);
  const float old_factor = scalar::Exp2(state->max - max);
  const float new_factor = scalar::Exp2(partial.max - max);
  JoinSums(partial_sum, new_factor, old_factor, value_width, sum);
  state->sum = std::fma(partial.sum, new_factor, state->sum * old_factor);
  state->max = max;
}

}  // namespace

void InstallAvx2Attention(KernelTable* table) {
  table->attention_partial[static_cast<size_t>(DType::kF32)] = &Partial<DType::kF32>;
  table->attention_partial[static_cast<size_t>(DType::kF16)] = &Partial<DType::kF16>;
  table->attention_partial[static_cast<size_t>(DType::kBF16)] = &Partial<DType::kBF16>;
  table->merge_partial = &MergePartial;
}

}  // namespace remontoir
