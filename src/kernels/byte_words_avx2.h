// The words of quantised products with AVX2: sixteen whole numbers, or sixteen times four bytes.
#pragma once

#include <array>
#include <cstring>

#include "kernels/activation_block.h"
#include "kernels/words_avx2.h"

namespace remontoir {

struct Avx2ByteWords : Avx2Words {
  // Lane i: one int32, or four bytes of k for output i.
  struct Ints {
    __m256i low;
    __m256i high;
  };

  static constexpr int kProductTileRows = 6;    // 12 running sums, 2 weights, 1 input
  static constexpr int kQuantisedTileRows = 4;  // 8 sums of the block, 2 weights, an input and room
  static constexpr int64_t kNearBytes = 2048;   // how early a few rows ask for what comes next

  static Ints LoadInts(const std::byte* at) {
    const auto* halves = reinterpret_cast<const __m256i*>(at);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  static void StoreInts(std::byte* at, Ints x) {
    auto* halves = reinterpret_cast<__m256i*>(at);
    _mm256_storeu_si256(halves, x.low);
    _mm256_storeu_si256(halves + 1, x.high);
  }
  static Ints LowNibbles(Ints x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.low, mask), _mm256_and_si256(x.high, mask)};
  }
  static Ints HighNibbles(Ints x) {
    return LowNibbles({_mm256_srli_epi16(x.low, 4), _mm256_srli_epi16(x.high, 4)});
  }
  // By a number of bits, right where it is negative, within 16 bits.
  static Ints ShiftLeft(Ints x, int bits) {
    if (bits < 0) return {_mm256_srli_epi16(x.low, -bits), _mm256_srli_epi16(x.high, -bits)};
    return {_mm256_slli_epi16(x.low, bits), _mm256_slli_epi16(x.high, bits)};
  }
  // x | (bits & mask), the mask for every byte.
  static Ints OrMasked(Ints x, Ints bits, int8_t mask) {
    const __m256i masks = _mm256_set1_epi8(mask);
    return {_mm256_or_si256(x.low, _mm256_and_si256(bits.low, masks)),
            _mm256_or_si256(x.high, _mm256_and_si256(bits.high, masks))};
  }
  static Ints LookUp(Ints nibbles, const std::array<int8_t, 16>& values) {
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(values.data())));
    return {_mm256_shuffle_epi8(table, nibbles.low), _mm256_shuffle_epi8(table, nibbles.high)};
  }
  // Signed bytes moved up by 128.
  static Ints MoveUp(Ints x) {
    const __m256i top = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(x.low, top), _mm256_xor_si256(x.high, top)};
  }
  static Ints ZeroInts() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Ints AddInts(Ints a, Ints b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  // -2^kShift * sum for a whole number; zero moved so is tiny and rounds to zero again.
  template <int kShift>
  static Ints Offset(const float* sum) {
    int32_t bits;
    std::memcpy(&bits, sum, 4);
    const __m256i moved =
        _mm256_add_epi32(_mm256_set1_epi32(bits), _mm256_set1_epi32(INT32_MIN + (kShift << 23)));
    const __m256i lanes = _mm256_cvtps_epi32(_mm256_castsi256_ps(moved));
    return {lanes, lanes};
  }
  static Floats ToFloats(Ints x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }

  // Four activations for every lane.
  static __m256i SetFour(const int8_t* q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
  }
  static Ints SetInts(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  // sum[i] += the four bytes of weights[i], at most 127, times `four`'s signed ones, none -128.
  static Ints DotSevenBits(Ints sum, Ints weights, __m256i four) {
    return {DotSevenBits(sum.low, weights.low, four), DotSevenBits(sum.high, weights.high, four)};
  }

 private:
  static __m256i DotSevenBits(__m256i sum, __m256i weights, __m256i four) {
    const __m256i pairs = _mm256_maddubs_epi16(weights, four);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace remontoir
