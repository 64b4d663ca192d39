// Products of quantised weights with AVX-512 VNNI: a whole panel of 16 outputs in one register.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/install.h"
#include "kernels/panel_formats.h"

namespace remontoir {
namespace {

constexpr int kTileRows = 8;  // 8 running sums and as many (or twice as many) of the block

// A few rows of a product, done together in registers.
struct RowTile {
  const ActivationBlock* in[kTileRows];
  float* out[kTileRows];
};

template <bool kHalf>
inline __m512 LoadScales(const std::byte* at) {
  if constexpr (kHalf) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
  } else {
    return _mm512_loadu_ps(at);
  }
}

// Weights of four k, the first operand of the dot product, for group g as unsigned bytes. Signed
// bytes are moved up by 128.
template <class Format>
inline __m512i LoadQuants(const std::byte* block, int g) {
  if constexpr (Format::kNibbles) {
    const __m512i packed = _mm512_loadu_si512(block + 64 * (g % 4));
    const __m512i nibbles = g < 4 ? packed : _mm512_srli_epi16(packed, 4);
    return _mm512_and_si512(nibbles, _mm512_set1_epi8(15));
  } else {
    const __m512i quants = _mm512_loadu_si512(block + 64 * g);
    if constexpr (!Format::kSigned) return quants;
    return _mm512_xor_si512(quants, _mm512_set1_epi8(-128));
  }
}

// Whole-number products of one block with kRows rows.
template <class Format, int kRows>
inline void BlockProducts(const std::byte* block, const ActivationBlock* const (&in)[kRows],
                          __m512i (&sums)[Format::kSubBlocks][kRows]) {
  constexpr int kGroupsPerSub = 8 / Format::kSubBlocks;
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    const __m512i weights = LoadQuants<Format>(block, g);
    const int sub = g / kGroupsPerSub;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, in[r]->q + 4 * g, 4);
      const __m512i sum = g % kGroupsPerSub == 0 ? _mm512_setzero_si512() : sums[sub][r];
      sums[sub][r] = _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four));
    }
  }
}

// What moving the weights up added: 128 times, or for nibbles without minimums 8 times, the sum of
// the activations. All terms are whole numbers below 2^24, so the difference is exact.
template <class Format>
inline __m512 ExactProduct(__m512i product, const ActivationBlock& in) {
  const __m512 exact = _mm512_cvtepi32_ps(product);
  if constexpr (Format::kSigned) {
    return _mm512_fmadd_ps(_mm512_set1_ps(in.sum), _mm512_set1_ps(-128.0F), exact);
  } else if constexpr (Format::kNibbles && !Format::kMinimums) {
    return _mm512_fmadd_ps(_mm512_set1_ps(in.sum), _mm512_set1_ps(-8.0F), exact);
  } else {
    return exact;
  }
}

// Scales and minimums of one block, loaded once for all rows.
template <class Format>
struct BlockScales {
  explicit BlockScales(const std::byte* block) {
    constexpr int64_t kBytes = kPanelRows * Format::kScaleBytes;
#pragma GCC unroll 2
    for (int sub = 0; sub < Format::kSubBlocks; ++sub) {
      scale[sub] = LoadScales<Format::kHalfScales>(block + Format::kScalesOffset + sub * kBytes);
      if constexpr (Format::kMinimums) {
        minimum[sub] =
            LoadScales<Format::kHalfScales>(block + Format::kMinimumsOffset + sub * kBytes);
      }
    }
  }
  __m512 scale[Format::kSubBlocks];
  __m512 minimum[Format::kSubBlocks];
};

// The block's part of the outputs in units of the activation's scale.
template <class Format, int kRows>
inline __m512 BlockValue(const __m512i (&sums)[Format::kSubBlocks][kRows], int row,
                         const BlockScales<Format>& scales, const ActivationBlock& in) {
  __m512 value = _mm512_mul_ps(ExactProduct<Format>(sums[0][row], in), scales.scale[0]);
  if constexpr (Format::kSubBlocks == 2) {
    value = _mm512_fmadd_ps(ExactProduct<Format>(sums[1][row], in), scales.scale[1], value);
  }
  if constexpr (Format::kMinimums && Format::kSubBlocks == 1) {
    value = _mm512_fmadd_ps(_mm512_set1_ps(in.sum), scales.minimum[0], value);
  }
  if constexpr (Format::kMinimums && Format::kSubBlocks == 2) {
    value = _mm512_fmadd_ps(_mm512_set1_ps(in.sum_low), scales.minimum[0], value);
    value = _mm512_fmadd_ps(_mm512_set1_ps(in.sum_high), scales.minimum[1], value);
  }
  return value;
}

template <class Format, int kRows>
inline void RunTile(const std::byte* panel, int64_t in_width, const RowTile& tile, int columns) {
  __m512 sums[kRows];
  const ActivationBlock* in[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sums[r] = _mm512_setzero_ps();
    in[r] = tile.in[r];
  }
  for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
    __m512i products[Format::kSubBlocks][kRows];
    BlockProducts<Format, kRows>(panel, in, products);
    const BlockScales<Format> scales(panel);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = BlockValue<Format, kRows>(products, r, scales, *in[r]);
      sums[r] = _mm512_fmadd_ps(value, _mm512_set1_ps(in[r]->scale), sums[r]);
      ++in[r];
    }
    panel += Format::kBlockBytes;
  }
  const auto wanted = static_cast<__mmask16>((1U << columns) - 1);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(tile.out[r], wanted, sums[r]);
}

// Runs the tile of exactly `rows` rows, 1 ... kRows.
template <class Format, int kRows = kTileRows>
inline void RunTileOf(int rows, const std::byte* panel, int64_t in_width, const RowTile& tile,
                      int columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTileOf<Format, kRows - 1>(rows, panel, in_width, tile, columns);
  }
  RunTile<Format, kRows>(panel, in_width, tile, columns);
}

// Panel by panel, so that a panel is read from memory once and then serves all rows from the cache,
// in tiles of nearly equal height.
template <class Format>
void Product(const QuantisedProduct& product) {
  const int tiles = (product.rows + kTileRows - 1) / kTileRows;
  const int height = tiles == 0 ? 1 : (product.rows + tiles - 1) / tiles;
  for (int p = 0; p < product.panel_count; ++p) {
    const std::byte* panel = product.panels + p * product.panel_bytes;
    const int columns = std::min(kPanelRows, product.columns - p * kPanelRows);
    for (int first = 0; first < product.rows; first += height) {
      const int rows = std::min(height, product.rows - first);
      RowTile tile;
      for (int r = 0; r < rows; ++r) {
        const int64_t row = product.row_index != nullptr ? product.row_index[first + r] : first + r;
        tile.in[r] = product.in + row * product.in_stride;
        tile.out[r] = product.out + (first + r) * product.out_stride + p * kPanelRows;
      }
      RunTileOf<Format>(rows, panel, product.in_width, tile, columns);
    }
  }
}

template <PanelFormat kFormat, class Format>
void Set(KernelTable* table) {
  table->quantised_product[static_cast<size_t>(kFormat)] = &Product<Format>;
}

}  // namespace

void InstallAvx512Products(KernelTable* table) {
  Set<PanelFormat::kS8, FormatS8>(table);
  Set<PanelFormat::kU4Offset, FormatU4Offset>(table);
  Set<PanelFormat::kU4Half, FormatU4Half>(table);
  Set<PanelFormat::kU4, FormatU4>(table);
  Set<PanelFormat::kU5, FormatU5>(table);
  Set<PanelFormat::kU6Sub16, FormatU6Sub16>(table);
}

}  // namespace remontoir
