// The words of quantised products with AVX-512 VNNI: those of byte_words_avx2.h in one register.
#pragma once

#include <array>
#include <cstring>

#include "kernels/activation_block.h"
#include "kernels/words_avx512.h"

namespace remontoir {
inline namespace REM_WORDS {

struct Avx512ByteWords : Avx512Words {
  using Ints = __m512i;

  // As many sums as hide the latency of two multiply-adds a cycle. More rows, a power of two bytes
  // apart, wouldn't fit the first-level cache's ways together.
  static constexpr int kProductTileRows = 8;
  static constexpr int kQuantisedTileRows = 8;  // as many sums, values and products of the block
  // How early a few rows ask for weights that come next. Not at all: the processor brings them from
  // the second-level cache by itself, and asking costs turns of loading.
  static constexpr int64_t kNearBytes = 0;

  static Ints LoadInts(const std::byte* at) { return _mm512_loadu_si512(at); }
  static Ints LowNibbles(Ints x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
  static Ints HighNibbles(Ints x) { return LowNibbles(_mm512_srli_epi16(x, 4)); }
  static Ints ShiftLeft(Ints x, int bits) {
    if (bits < 0) return _mm512_srli_epi16(x, static_cast<unsigned>(-bits));
    return _mm512_slli_epi16(x, static_cast<unsigned>(bits));
  }
  static Ints OrMasked(Ints x, Ints bits, int8_t mask) {
    constexpr int kOrOfAnd = 0xf8;  // by the bits of its operands
    return _mm512_ternarylogic_epi32(x, bits, _mm512_set1_epi8(mask), kOrOfAnd);
  }
  static Ints LookUp(Ints nibbles, const std::array<int8_t, 16>& values) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values.data())));
    return _mm512_shuffle_epi8(table, nibbles);
  }
  static Ints MoveUp(Ints x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }
  static Ints ZeroInts() { return _mm512_setzero_si512(); }
  template <int kShift>
  static Ints Offset(const float* sum) {
    int32_t bits;
    std::memcpy(&bits, sum, 4);
    const __m512i moved =
        _mm512_add_epi32(_mm512_set1_epi32(bits), _mm512_set1_epi32(INT32_MIN + (kShift << 23)));
    return _mm512_cvtps_epi32(_mm512_castsi512_ps(moved));
  }
  static Floats ToFloats(Ints x) { return _mm512_cvtepi32_ps(x); }

  static __m512i SetFour(const int8_t* q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return _mm512_set1_epi32(four);
  }
  // sum[i] += the four unsigned bytes of weights[i] times `four`'s signed ones.
  static Ints Dot(Ints sum, Ints weights, __m512i four) {
    return _mm512_dpbusd_epi32(sum, weights, four);
  }
  static Ints SetInts(int32_t x) { return _mm512_set1_epi32(x); }
  static Ints DotSevenBits(Ints sum, Ints weights, __m512i four) { return Dot(sum, weights, four); }
};

}  // namespace REM_WORDS
}  // namespace remontoir
