// Sixteen floats as one AVX-512 register: the words of words_avx2.h, lane by lane the same.
#pragma once

#include <cstdint>

#include "kernels/intrinsics.h"
#include "kernels/math_scalar.h"
#include "kernels/words_namespace.h"
#include "tensor/dtype.h"

namespace remontoir {
inline namespace REM_WORDS {

struct Avx512Words {
  using Floats = __m512;
  using Mask = __mmask16;

  static constexpr int kRegisters = 1;
  static constexpr int kAccumulators = 24;
  static constexpr int kTileRowsMax = 8;

  static Floats Zero() { return _mm512_setzero_ps(); }
  static Floats Set(float x) { return _mm512_set1_ps(x); }
  static Floats SetFrom(const float* at) { return _mm512_set1_ps(*at); }

  static Floats Load(const float* at) { return _mm512_loadu_ps(at); }
  static void Store(float* at, Floats x) { _mm512_storeu_ps(at, x); }
  static Floats LoadFirst(const float* at, int64_t count) {
    return _mm512_maskz_loadu_ps(First(count), at);
  }
  static void StoreFirst(float* at, int64_t count, Floats x) {
    _mm512_mask_storeu_ps(at, First(count), x);
  }

  template <DType kType>
  static Floats LoadAs(const std::byte* at) {
    if constexpr (kType == DType::kF32) return _mm512_loadu_ps(at);
    if constexpr (kType == DType::kQ8_0) return LoadBytes(at);
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    if constexpr (kType == DType::kF16) return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  template <DType kType, int kRows, int kColumns>
  static void AddProducts(const Floats (&rows)[kRows], const std::byte* at, int column,
                          Floats (&sums)[kRows][kColumns]) {
    const Floats x = LoadAs<kType>(at);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) sums[r][column] = MultiplyAdd(rows[r], x, sums[r][column]);
  }
  static Floats LoadBytes(const std::byte* at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }

  static Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats Subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats Divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats MultiplySubtract(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
  static Floats MultiplySubtractAdd(Floats a, Floats b, Floats c) {
    return _mm512_fmaddsub_ps(a, b, c);
  }
  static Floats SwapNeighbours(Floats x) { return _mm512_permute_ps(x, 0b10'11'00'01); }
  static Floats LoadTwice(const float* at, int64_t count) {
    const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(order, _mm512_maskz_loadu_ps(First(count), at));
  }
  static Floats Smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats Larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats Negate(Floats x) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), SignBits()));
  }
  static Floats Magnitude(Floats x) {
    return _mm512_castsi512_ps(_mm512_andnot_si512(SignBits(), _mm512_castps_si512(x)));
  }
  static Floats WithSignOf(Floats magnitude, Floats x) {
    const __m512i sign = _mm512_and_si512(SignBits(), _mm512_castps_si512(x));
    return _mm512_castsi512_ps(_mm512_or_si512(sign, _mm512_castps_si512(Magnitude(magnitude))));
  }

  static Mask Less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Floats Select(Mask mask, Floats a, Floats b) { return _mm512_mask_blend_ps(mask, b, a); }
  static Floats Clear(Mask mask, Floats x) {
    return _mm512_maskz_mov_ps(static_cast<Mask>(~mask), x);
  }
  static bool Any(Mask mask) { return mask != 0; }
  static bool All(Mask mask) { return mask == 0xffff; }
  static uint32_t Bits(Mask mask) { return mask; }
  static Mask FromBits(uint32_t bits) { return static_cast<Mask>(bits); }
  // The 64 lanes that they are of all `first` come out of two shifts.
  static Mask LanesBetween(int first, int begin, int end) {
    const uint64_t between = (~uint64_t{0} >> (64 - end)) & (~uint64_t{0} << begin);
    return static_cast<Mask>(between >> first);
  }

  static Floats RoundToWhole(Floats x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Floats PowerOfTwo(Floats n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }

  static Floats Shift(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }

  static Floats PowerOfBiased(Floats x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
  }

  static Floats RoughProduct(Floats x, Floats n, Floats v) {
    const __m512i power = _mm512_cvtps_epi32(_mm512_mul_ps(n, _mm512_set1_ps(1 << 23)));
    const __m512i root = _mm512_srli_epi32(_mm512_castps_si512(v), 1);
    const __m512i bits = _mm512_add_epi32(_mm512_add_epi32(_mm512_castps_si512(x), power), root);
    const __m512i product = _mm512_sub_epi32(bits, _mm512_set1_epi32(scalar::kRoughRootBits));
    return _mm512_castsi512_ps(_mm512_max_epi32(product, _mm512_setzero_si512()));
  }

  static float FoldLanes(Floats x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), UpperHalf(x));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float LargestLane(Floats x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), UpperHalf(x));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static void StoreBytes(int8_t* at, Floats x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
  }
  static void StoreF16(std::byte* at, Floats x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static void StoreBf16(std::byte* at, Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040'0000));
    const Mask is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i upper = _mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, rounded, quiet), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm512_cvtepi32_epi16(upper));
  }

 private:
  static Mask First(int64_t count) {
    const int64_t lanes = count < 0 ? 0 : count > 16 ? 16 : count;  // moves, no branches
    return static_cast<Mask>((1U << lanes) - 1);
  }
  static __m512i SignBits() { return _mm512_set1_epi32(INT32_MIN); }
  static __m256 UpperHalf(Floats x) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
  }
};

}  // namespace REM_WORDS
}  // namespace remontoir
