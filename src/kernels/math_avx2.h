// math_scalar.h eight values at a time, with the same bits. For files compiled with AVX2 and FMA.
#pragma once

#include <immintrin.h>

#include "kernels/math_scalar.h"

// Functions are static for the reason given there.
namespace remontoir::avx2 {

// Puts each lane of n, a whole number in -126 ... 128, into the exponent.
static inline __m256 PowerOfTwo(__m256 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

static inline __m256 Exp2Reduced(__m256 r, __m256 n) {
  __m256 p = _mm256_set1_ps(scalar::kExp2P[5]);
#pragma GCC unroll 5
  for (int i = 4; i >= 0; --i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(scalar::kExp2P[i]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
  return _mm256_mul_ps(p, PowerOfTwo(n));
}

static inline __m256 RoundToWhole(__m256 x) {
  const __m256 shift = _mm256_set1_ps(scalar::kRoundingShift);
  return _mm256_sub_ps(_mm256_add_ps(x, shift), shift);
}

// The operand order of min lets NaN through; lanes below the smallest exponent are cleared last.
static inline __m256 Exp2(__m256 x) {
  const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(scalar::kExp2Max), x);
  const __m256 n = RoundToWhole(clamped);
  const __m256 power = Exp2Reduced(_mm256_sub_ps(clamped, n), n);
  const __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(scalar::kExp2Min), _CMP_LT_OQ);
  return _mm256_andnot_ps(tiny, power);
}

static inline __m256 Exp(__m256 x) {
  const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(scalar::kExpMax), x);
  const __m256 log2e = _mm256_set1_ps(scalar::kLog2E);
  const __m256 n = RoundToWhole(_mm256_mul_ps(clamped, log2e));
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-scalar::kLn2High), clamped);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-scalar::kLn2Low), r);
  const __m256 power = Exp2Reduced(_mm256_mul_ps(r, log2e), n);
  const __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(scalar::kExpMin), _CMP_LT_OQ);
  return _mm256_andnot_ps(tiny, power);
}

static inline __m256 Tanh(__m256 x) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0F);
  const __m256 magnitude = _mm256_andnot_ps(sign_bit, x);
  const __m256 square = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(scalar::kTanhP[4]);
#pragma GCC unroll 4
  for (int i = 3; i >= 0; --i) p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(scalar::kTanhP[i]));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(x, square), p, x);

  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256 power = Exp(_mm256_mul_ps(_mm256_set1_ps(2.0F), magnitude));
  const __m256 ratio = _mm256_div_ps(_mm256_set1_ps(2.0F), _mm256_add_ps(power, one));
  const __m256 large = _mm256_or_ps(_mm256_andnot_ps(sign_bit, _mm256_sub_ps(one, ratio)),
                                    _mm256_and_ps(sign_bit, x));
  const __m256 is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(scalar::kTanhSmall), _CMP_LT_OQ);
  return _mm256_blendv_ps(large, small, is_small);
}

// Sum of 16 lanes, `low` the first eight: the tree of scalar::FoldLanes.
static inline float FoldLanes(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float LargestLane(__m256 x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace remontoir::avx2
