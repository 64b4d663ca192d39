// Matrix products with AVX2, FMA and F16C: one panel of 16 outputs times a few rows in registers.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/install.h"
#include "kernels/panel_formats.h"

namespace remontoir {
namespace {

constexpr int kFloatTileRows = 6;      // 12 running sums, 2 weights, 1 input: 15 registers
constexpr int kQuantisedTileRows = 4;  // 8 sums, 4 weights, the mask, an input and a product
constexpr int kTileRowsMax = 6;

// A few rows of a product, done together in registers.
template <class Input>
struct RowTile {
  const Input* in[kTileRowsMax];
  float* out[kTileRowsMax];
};

// Writes 16 sums of a row, or the first `columns` of them.
inline void StoreRow(__m256 low, __m256 high, int columns, float* out) {
  if (columns >= kPanelRows) {
    _mm256_storeu_ps(out, low);
    _mm256_storeu_ps(out + 8, high);
    return;
  }
  alignas(32) float sums[kPanelRows];
  _mm256_store_ps(sums, low);
  _mm256_store_ps(sums + 8, high);
  std::memcpy(out, sums, static_cast<size_t>(columns) * sizeof(float));
}

// Eight float weights from a panel.
template <PanelFormat kFormat>
inline __m256 LoadWeights(const std::byte* at) {
  if constexpr (kFormat == PanelFormat::kF32) {
    return _mm256_load_ps(reinterpret_cast<const float*>(at));
  } else {
    const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kFormat == PanelFormat::kF16) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

template <PanelFormat kFormat>
struct FloatKernel {
  using Input = float;
  static constexpr int kTileRows = kFloatTileRows;

  template <int kRows>
  static void Run(const std::byte* panel, int64_t in_width, const RowTile<float>& tile,
                  int columns) {
    constexpr int64_t kHalfBytes = kFormat == PanelFormat::kF32 ? 32 : 16;
    __m256 low[kRows];
    __m256 high[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_ps();
    for (int64_t k = 0; k < in_width; ++k) {
      const __m256 weights_low = LoadWeights<kFormat>(panel);
      const __m256 weights_high = LoadWeights<kFormat>(panel + kHalfBytes);
      panel += 2 * kHalfBytes;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256 in = _mm256_broadcast_ss(tile.in[r] + k);
        low[r] = _mm256_fmadd_ps(in, weights_low, low[r]);
        high[r] = _mm256_fmadd_ps(in, weights_high, high[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) StoreRow(low[r], high[r], columns, tile.out[r]);
  }
};

// Four activations of a block, for every lane.
inline __m256i BroadcastFour(const int8_t* q) {
  int32_t four;
  std::memcpy(&four, q, 4);
  return _mm256_set1_epi32(four);
}

template <bool kHalf>
inline __m256 LoadScales(const std::byte* at) {
  if constexpr (kHalf) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
  } else {
    return _mm256_load_ps(reinterpret_cast<const float*>(at));
  }
}

inline __m256i LoadQuants(const std::byte* at) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
}

// Whole-number products of one block with kRows rows; sums [sub-block][row][half panel].
template <class Format, int kRows>
struct BlockProducts {
  static constexpr int kSubs = Format::kSubBlocks;
  __m256i sums[kSubs][kRows][2];

  // Nibbles: 8 pairs of products of at most 2 * 15 * 127 fit 16 bits.
  inline void AddNibbles(const std::byte* block, const ActivationBlock* const (&in)[kRows]) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i pairs[kRows][2];
#pragma GCC unroll 8
    for (int g = 0; g < 4; ++g) {
      const __m256i packed0 = LoadQuants(block + 64 * g);
      const __m256i packed1 = LoadQuants(block + 64 * g + 32);
      const __m256i low0 = _mm256_and_si256(packed0, mask);
      const __m256i low1 = _mm256_and_si256(packed1, mask);
      const __m256i high0 = _mm256_and_si256(_mm256_srli_epi16(packed0, 4), mask);
      const __m256i high1 = _mm256_and_si256(_mm256_srli_epi16(packed1, 4), mask);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256i first = BroadcastFour(in[r]->q + 4 * g);
        const __m256i p0 = _mm256_maddubs_epi16(low0, first);
        const __m256i p1 = _mm256_maddubs_epi16(low1, first);
        pairs[r][0] = g == 0 ? p0 : _mm256_add_epi16(pairs[r][0], p0);
        pairs[r][1] = g == 0 ? p1 : _mm256_add_epi16(pairs[r][1], p1);
        const __m256i second = BroadcastFour(in[r]->q + 4 * g + 16);
        pairs[r][0] = _mm256_add_epi16(pairs[r][0], _mm256_maddubs_epi16(high0, second));
        pairs[r][1] = _mm256_add_epi16(pairs[r][1], _mm256_maddubs_epi16(high1, second));
      }
    }
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[0][r][0] = _mm256_madd_epi16(pairs[r][0], ones);
      sums[0][r][1] = _mm256_madd_epi16(pairs[r][1], ones);
    }
  }

  // Unsigned bytes: as many groups are added in 16 bits as their largest value allows.
  inline void AddUnsigned(const std::byte* block, const ActivationBlock* const (&in)[kRows]) {
    constexpr int kGroups = 32767 / (2 * 127 * Format::kQuantMax) >= 4 ? 4 : 2;
    const __m256i ones = _mm256_set1_epi16(1);
    constexpr int kSteps = 8 / kGroups;
#pragma GCC unroll 8
    for (int step = 0; step < kSteps; ++step) {
      __m256i pairs[kRows][2];
#pragma GCC unroll 8
      for (int i = 0; i < kGroups; ++i) {
        const int g = step * kGroups + i;
        const __m256i weights0 = LoadQuants(block + 64 * g);
        const __m256i weights1 = LoadQuants(block + 64 * g + 32);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256i four = BroadcastFour(in[r]->q + 4 * g);
          const __m256i p0 = _mm256_maddubs_epi16(weights0, four);
          const __m256i p1 = _mm256_maddubs_epi16(weights1, four);
          pairs[r][0] = i == 0 ? p0 : _mm256_add_epi16(pairs[r][0], p0);
          pairs[r][1] = i == 0 ? p1 : _mm256_add_epi16(pairs[r][1], p1);
        }
      }
      constexpr int kStepsPerSub = kSteps / kSubs;
      const int sub = step / kStepsPerSub;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int half = 0; half < 2; ++half) {
          const __m256i products = _mm256_madd_epi16(pairs[r][half], ones);
          __m256i& sum = sums[sub][r][half];
          sum = step % kStepsPerSub == 0 ? products : _mm256_add_epi32(sum, products);
        }
      }
    }
  }

  // Signed bytes: |w| times the activation with w's sign. A pair reaches 2 * 128 * 127, so each
  // goes to 32 bits at once.
  inline void AddSigned(const std::byte* block, const ActivationBlock* const (&in)[kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 8
      for (int half = 0; half < 2; ++half) {
        const __m256i weights = LoadQuants(block + 64 * g + 32 * half);
        const __m256i magnitudes = _mm256_abs_epi8(weights);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256i four = _mm256_sign_epi8(BroadcastFour(in[r]->q + 4 * g), weights);
          const __m256i products = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, four), ones);
          __m256i& sum = sums[0][r][half];
          sum = g == 0 ? products : _mm256_add_epi32(sum, products);
        }
      }
    }
  }

  inline void Compute(const std::byte* block, const ActivationBlock* const (&in)[kRows]) {
    if constexpr (Format::kNibbles) {
      AddNibbles(block, in);
    } else if constexpr (Format::kSigned) {
      AddSigned(block, in);
    } else {
      AddUnsigned(block, in);
    }
  }
};

// The block's part of 8 outputs in units of the activation's scale.
template <class Format, int kRows>
inline __m256 BlockValue(const BlockProducts<Format, kRows>& products, const std::byte* block,
                         const ActivationBlock& in, int row, int half) {
  constexpr bool kHalf = Format::kHalfScales;
  constexpr int64_t kLaneBytes = kHalf ? 16 : 32;
  const std::byte* scales = block + Format::kScalesOffset + half * kLaneBytes;
  __m256 exact = _mm256_cvtepi32_ps(products.sums[0][row][half]);
  if constexpr (Format::kNibbles && !Format::kMinimums) {
    exact = _mm256_fmadd_ps(_mm256_set1_ps(in.sum), _mm256_set1_ps(-8.0F), exact);
  }
  __m256 value = _mm256_mul_ps(exact, LoadScales<kHalf>(scales));
  if constexpr (Format::kSubBlocks == 2) {
    value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products.sums[1][row][half]),
                            LoadScales<kHalf>(scales + 2 * kLaneBytes), value);
  }
  if constexpr (Format::kMinimums) {
    const std::byte* minimums = block + Format::kMinimumsOffset + half * kLaneBytes;
    if constexpr (Format::kSubBlocks == 1) {
      return _mm256_fmadd_ps(_mm256_set1_ps(in.sum), LoadScales<kHalf>(minimums), value);
    }
    value = _mm256_fmadd_ps(_mm256_set1_ps(in.sum_low), LoadScales<kHalf>(minimums), value);
    value = _mm256_fmadd_ps(_mm256_set1_ps(in.sum_high),
                            LoadScales<kHalf>(minimums + 2 * kLaneBytes), value);
  }
  return value;
}

template <class Format>
struct QuantisedKernel {
  using Input = ActivationBlock;
  static constexpr int kTileRows = kQuantisedTileRows;

  template <int kRows>
  static void Run(const std::byte* panel, int64_t in_width, const RowTile<ActivationBlock>& tile,
                  int columns) {
    __m256 sums[kRows][2];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    const ActivationBlock* in[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) in[r] = tile.in[r];
    for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
      BlockProducts<Format, kRows> products;
      products.Compute(panel, in);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256 scale = _mm256_set1_ps(in[r]->scale);
#pragma GCC unroll 8
        for (int half = 0; half < 2; ++half) {
          const __m256 value = BlockValue<Format, kRows>(products, panel, *in[r], r, half);
          sums[r][half] = _mm256_fmadd_ps(value, scale, sums[r][half]);
        }
        ++in[r];
      }
      panel += Format::kBlockBytes;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) StoreRow(sums[r][0], sums[r][1], columns, tile.out[r]);
  }
};

// Runs the kernel of exactly `rows` rows, 1 ... kRows.
template <class Kernel, int kRows = Kernel::kTileRows>
inline void RunTile(int rows, const std::byte* panel, int64_t in_width,
                    const RowTile<typename Kernel::Input>& tile, int columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTile<Kernel, kRows - 1>(rows, panel, in_width, tile, columns);
  }
  Kernel::template Run<kRows>(panel, in_width, tile, columns);
}

// Panel by panel, so that a panel is read from memory once and then serves all rows from the cache,
// in tiles of nearly equal height: 8 float rows go as 4 + 4.
template <class Kernel>
void Product(const PanelProduct<typename Kernel::Input>& product) {
  const int tiles = (product.rows + Kernel::kTileRows - 1) / Kernel::kTileRows;
  const int height = tiles == 0 ? 1 : (product.rows + tiles - 1) / tiles;
  for (int p = 0; p < product.panel_count; ++p) {
    const std::byte* panel = product.panels + p * product.panel_bytes;
    const int columns = std::min(kPanelRows, product.columns - p * kPanelRows);
    for (int first = 0; first < product.rows; first += height) {
      const int rows = std::min(height, product.rows - first);
      RowTile<typename Kernel::Input> tile;
      for (int r = 0; r < rows; ++r) {
        const int64_t row = product.row_index != nullptr ? product.row_index[first + r] : first + r;
        tile.in[r] = product.in + row * product.in_stride;
        tile.out[r] = product.out + (first + r) * product.out_stride + p * kPanelRows;
      }
      RunTile<Kernel>(rows, panel, product.in_width, tile, columns);
    }
  }
}

template <PanelFormat kFormat>
void SetFloat(KernelTable* table) {
  table->float_product[static_cast<size_t>(kFormat)] = &Product<FloatKernel<kFormat>>;
}

template <PanelFormat kFormat, class Format>
void SetQuantised(KernelTable* table) {
  table->quantised_product[static_cast<size_t>(kFormat)] = &Product<QuantisedKernel<Format>>;
}

}  // namespace

void InstallAvx2Products(KernelTable* table) {
  SetFloat<PanelFormat::kF32>(table);
  SetFloat<PanelFormat::kF16>(table);
  SetFloat<PanelFormat::kBF16>(table);
  SetQuantised<PanelFormat::kS8, FormatS8>(table);
  SetQuantised<PanelFormat::kU4Offset, FormatU4Offset>(table);
  SetQuantised<PanelFormat::kU4Half, FormatU4Half>(table);
  SetQuantised<PanelFormat::kU4, FormatU4>(table);
  SetQuantised<PanelFormat::kU5, FormatU5>(table);
  SetQuantised<PanelFormat::kU6Sub16, FormatU6Sub16>(table);
}

}  // namespace remontoir
