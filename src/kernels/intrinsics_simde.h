// AVX-512 and AVX-VNNI as SIMDe has them in AVX2, under the names of the real intrinsics; and what
// SIMDe 0.7 has not, or not with the same bits or the same memory accesses. For tests only.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE  // inlined into unrolled kernels they take minutes to compile
// SIMDe's own fallbacks without FMA would round twice.
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "AVX-512 through SIMDe takes its 256-bit halves from AVX2, FMA and F16C"
#endif

#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/andnot.h>
#include <simde/x86/avx512/blend.h>
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/cmp.h>
#include <simde/x86/avx512/cvts.h>
#include <simde/x86/avx512/div.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/extract.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/fmsub.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/max.h>
#include <simde/x86/avx512/min.h>
#include <simde/x86/avx512/mov.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/permutexvar.h>
#include <simde/x86/avx512/roundscale.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setr.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/shuffle.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>
#include <simde/x86/avx512/ternarylogic.h>
#include <simde/x86/avx512/xor.h>

#include <cstddef>
#include <cstdint>

// 512 bits are two halves of 256 each.
namespace remontoir::simde_shim {

inline __m512 Join(__m256 low, __m256 high) {
  simde__m512_private joined;
  joined.m256[0] = low;
  joined.m256[1] = high;
  return simde__m512_from_private(joined);
}
inline __m512i Join(__m256i low, __m256i high) {
  simde__m512i_private joined;
  joined.m256i[0] = low;
  joined.m256i[1] = high;
  return simde__m512i_from_private(joined);
}
inline __m256 Half(__m512 x, int half) { return simde__m512_to_private(x).m256[half]; }
inline __m256i Half(__m512i x, int half) { return simde__m512i_to_private(x).m256i[half]; }
inline __m128i Half(__m256i x, int half) {
  return half == 0 ? _mm256_castsi256_si128(x) : _mm256_extracti128_si256(x, 1);
}

inline __m512 FloatsOfHalves(__m256i x) {
  return Join(_mm256_cvtph_ps(Half(x, 0)), _mm256_cvtph_ps(Half(x, 1)));
}
template <int kRounding>
__m256i HalvesOfFloats(__m512 x) {
  return _mm256_set_m128i(_mm256_cvtps_ph(Half(x, 1), kRounding),
                          _mm256_cvtps_ph(Half(x, 0), kRounding));
}
inline __m512 FloatsOfInts(__m512i x) {
  return Join(_mm256_cvtepi32_ps(Half(x, 0)), _mm256_cvtepi32_ps(Half(x, 1)));
}
inline __m512i IntsOfFloats(__m512 x) {
  return Join(_mm256_cvtps_epi32(Half(x, 0)), _mm256_cvtps_epi32(Half(x, 1)));
}
inline __m512i IntsOfBytes(__m128i x) {
  return Join(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x)));
}
inline __m512i IntsOfUnsigned16(__m256i x) {
  return Join(_mm256_cvtepu16_epi32(Half(x, 0)), _mm256_cvtepu16_epi32(Half(x, 1)));
}
// The low sixteen bits of each.
inline __m256i Truncate16(__m512i x) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i packed =
      _mm256_packus_epi32(_mm256_and_si256(Half(x, 0), low), _mm256_and_si256(Half(x, 1), low));
  return _mm256_permute4x64_epi64(packed, 0b11'01'10'00);
}

// SIMDe takes no count that is known after inlining alone.
inline __m512i ShiftRight16(__m512i x, unsigned count) {
  const int bits = static_cast<int>(count);
  return Join(_mm256_srli_epi16(Half(x, 0), bits), _mm256_srli_epi16(Half(x, 1), bits));
}

inline __m512 MultiplySubtractAdd(__m512 a, __m512 b, __m512 c) {
  return Join(_mm256_fmaddsub_ps(Half(a, 0), Half(b, 0), Half(c, 0)),
              _mm256_fmaddsub_ps(Half(a, 1), Half(b, 1), Half(c, 1)));
}
template <int kOrder>
__m512 Permute(__m512 x) {
  return Join(_mm256_permute_ps(Half(x, 0), kOrder), _mm256_permute_ps(Half(x, 1), kOrder));
}
// x * 2^n for whole numbers n in -126 ... 127 alone. SIMDe calls exp2f and drops subnormal x.
inline __m512 Scale(__m512 x, __m512 n) {
  const __m512i biased = _mm512_add_epi32(IntsOfFloats(n), _mm512_set1_epi32(127));
  return _mm512_mul_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23)));
}

// Memory of lanes outside the mask is not touched.
inline __m256i Lanes(__mmask16 mask, int half) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i ours = _mm256_set1_epi32(mask >> (8 * half));
  return _mm256_cmpeq_epi32(_mm256_and_si256(ours, bits), bits);
}
inline __m512 MaskedLoad(__mmask16 mask, const float* at) {
  return Join(_mm256_maskload_ps(at, Lanes(mask, 0)), _mm256_maskload_ps(at + 8, Lanes(mask, 1)));
}
inline void MaskedStore(float* at, __mmask16 mask, __m512 x) {
  _mm256_maskstore_ps(at, Lanes(mask, 0), Half(x, 0));
  _mm256_maskstore_ps(at + 8, Lanes(mask, 1), Half(x, 1));
}

}  // namespace remontoir::simde_shim

// Intel's names are reserved ones, and these stand in for them.
// NOLINTBEGIN(bugprone-reserved-identifier)
// Some compilers have these as macros.
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_srli_epi16
#undef _mm512_fmaddsub_ps
#undef _mm512_permute_ps
#undef _mm512_scalef_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm256_dpbusd_avx_epi32

#define _mm512_cvtph_ps(x) ::remontoir::simde_shim::FloatsOfHalves(x)
#define _mm512_cvtps_ph(x, rounding) ::remontoir::simde_shim::HalvesOfFloats<rounding>(x)
#define _mm512_cvtepi32_ps(x) ::remontoir::simde_shim::FloatsOfInts(x)
#define _mm512_cvtps_epi32(x) ::remontoir::simde_shim::IntsOfFloats(x)
#define _mm512_cvtepi8_epi32(x) ::remontoir::simde_shim::IntsOfBytes(x)
#define _mm512_cvtepu16_epi32(x) ::remontoir::simde_shim::IntsOfUnsigned16(x)
#define _mm512_cvtepi32_epi16(x) ::remontoir::simde_shim::Truncate16(x)
#define _mm512_srli_epi16(x, count) ::remontoir::simde_shim::ShiftRight16(x, count)
#define _mm512_fmaddsub_ps(a, b, c) ::remontoir::simde_shim::MultiplySubtractAdd(a, b, c)
#define _mm512_permute_ps(x, order) ::remontoir::simde_shim::Permute<order>(x)
#define _mm512_scalef_ps(x, n) ::remontoir::simde_shim::Scale(x, n)
#define _mm512_maskz_loadu_ps(mask, at) ::remontoir::simde_shim::MaskedLoad(mask, at)
#define _mm512_mask_storeu_ps(at, mask, x) ::remontoir::simde_shim::MaskedStore(at, mask, x)
// The same instruction in VEX encoding.
#define _mm256_dpbusd_avx_epi32(sum, weights, four) simde_mm256_dpbusd_epi32(sum, weights, four)
// NOLINTEND(bugprone-reserved-identifier)
