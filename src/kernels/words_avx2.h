// Sixteen floats as two AVX2 registers: the words in which the vector kernels are written.
#pragma once

#include <cstdint>

#include "kernels/intrinsics.h"
#include "kernels/math_scalar.h"
#include "tensor/dtype.h"

// For files compiled with AVX2, FMA and F16C. Every function does the same to each lane in every
// set of words, so that kernels have the same bits on all of them.
namespace remontoir {

struct Avx2Words {
  struct Floats {
    __m256 low;
    __m256 high;
  };
  using Mask = Floats;  // all ones or all zeros in a lane

  static constexpr int kRegisters = 2;  // of a Floats
  // Running sums of sixteen that the registers hold beside their operands.
  static constexpr int kAccumulators = 6;
  static constexpr int kTileRowsMax = 6;  // of tiles in which rows share what is loaded

  static Floats Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Floats Set(float x) {
    const __m256 lanes = _mm256_set1_ps(x);
    return {lanes, lanes};
  }
  static Floats SetFrom(const float* at) {
    const __m256 lanes = _mm256_broadcast_ss(at);
    return {lanes, lanes};
  }

  static Floats Load(const float* at) { return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)}; }
  static void Store(float* at, Floats x) {
    _mm256_storeu_ps(at, x.low);
    _mm256_storeu_ps(at + 8, x.high);
  }
  // The first `count` lanes; memory of the others is not touched, and they load as zeros.
  static Floats LoadFirst(const float* at, int64_t count) {
    return {_mm256_maskload_ps(at, First(count, 0)), _mm256_maskload_ps(at + 8, First(count, 8))};
  }
  static void StoreFirst(float* at, int64_t count, Floats x) {
    _mm256_maskstore_ps(at, First(count, 0), x.low);
    _mm256_maskstore_ps(at + 8, First(count, 8), x.high);
  }

  // Sixteen elements of a float type, or signed bytes (kQ8_0), as float32.
  template <DType kType>
  static Floats LoadAs(const std::byte* at) {
    return {LoadHalf<kType>(at), LoadHalf<kType>(at + kHalfBytes<kType>)};
  }
  // sums[r][column] += rows[r] * (sixteen elements at `at`): half by half, since a half more in
  // registers would drive a sum out of them. The rows' lanes are all alike.
  template <DType kType, int kRows, int kColumns>
  static void AddProducts(const Floats (&rows)[kRows], const std::byte* at, int column,
                          Floats (&sums)[kRows][kColumns]) {
    const __m256 low = LoadHalf<kType>(at);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      sums[r][column].low = _mm256_fmadd_ps(rows[r].low, low, sums[r][column].low);
    }
    const __m256 high = LoadHalf<kType>(at + kHalfBytes<kType>);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      sums[r][column].high = _mm256_fmadd_ps(rows[r].low, high, sums[r][column].high);
    }
  }
  // Sixteen signed bytes as float32.
  static Floats LoadBytes(const std::byte* at) {
    const auto* bytes = reinterpret_cast<const __m128i*>(at);
    const __m128i all = _mm_loadu_si128(bytes);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(all, all)))};
  }

  static Floats Add(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Floats Subtract(Floats a, Floats b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Floats Multiply(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Floats Divide(Floats a, Floats b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Floats MultiplyAdd(Floats a, Floats b, Floats c) {  // a * b + c
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Floats MultiplySubtract(Floats a, Floats b, Floats c) {  // a * b - c
    return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
  }
  // a * b - c in even lanes, a * b + c in odd ones.
  static Floats MultiplySubtractAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fmaddsub_ps(a.low, b.low, c.low), _mm256_fmaddsub_ps(a.high, b.high, c.high)};
  }
  static Floats SwapNeighbours(Floats x) {  // lanes 1, 0, 3, 2, ...
    return {_mm256_permute_ps(x.low, 0b10'11'00'01), _mm256_permute_ps(x.high, 0b10'11'00'01)};
  }
  // Values 0, 0, 1, 1, ... of the first `count`, at most eight.
  static Floats LoadTwice(const float* at, int64_t count) {
    const __m256 x = _mm256_maskload_ps(at, First(count, 0));
    const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm256_permutevar8x32_ps(x, low), _mm256_permutevar8x32_ps(x, high)};
  }
  // b where a lane has a NaN.
  static Floats Smaller(Floats a, Floats b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Floats Larger(Floats a, Floats b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Floats Negate(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(x.low, sign), _mm256_xor_ps(x.high, sign)};
  }
  static Floats Magnitude(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.low), _mm256_andnot_ps(sign, x.high)};
  }
  static Floats WithSignOf(Floats magnitude, Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, magnitude.low), _mm256_and_ps(sign, x.low)),
            _mm256_or_ps(_mm256_andnot_ps(sign, magnitude.high), _mm256_and_ps(sign, x.high))};
  }

  static Mask Less(Floats a, Floats b) {  // false for NaN
    return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
  }
  static Floats Select(Mask mask, Floats a, Floats b) {  // a where the mask is set, else b
    return {_mm256_blendv_ps(b.low, a.low, mask.low), _mm256_blendv_ps(b.high, a.high, mask.high)};
  }
  static Floats Clear(Mask mask, Floats x) {
    return {_mm256_andnot_ps(mask.low, x.low), _mm256_andnot_ps(mask.high, x.high)};
  }
  static bool Any(Mask mask) { return _mm256_movemask_ps(_mm256_or_ps(mask.low, mask.high)) != 0; }
  static bool All(Mask mask) {
    return _mm256_movemask_ps(_mm256_and_ps(mask.low, mask.high)) == 0xff;
  }
  // A bit a lane, lane 0 the lowest.
  static uint32_t Bits(Mask mask) {
    return static_cast<uint32_t>(_mm256_movemask_ps(mask.low) |
                                 (_mm256_movemask_ps(mask.high) << 8));
  }
  static Mask FromBits(uint32_t bits) { return {LanesOf(bits & 0xff), LanesOf(bits >> 8)}; }
  // Lanes whose number, counted from `first`, lies in [begin, end): 0 <= begin < end <= 64, and
  // `first` is below 64.
  static Mask LanesBetween(int first, int begin, int end) {
    return {Between(first, begin, end), Between(first + 8, begin, end)};
  }

  // Nearest whole number, ties to even, of |x| < 2^22; of other x anything.
  static Floats RoundToWhole(Floats x) {
    const Floats shift = Set(1.5F * (1 << 23));
    return Subtract(Add(x, shift), shift);
  }
  // 2^n for whole numbers n in -126 ... 128.
  static Floats PowerOfTwo(Floats n) { return {Power(n.low), Power(n.high)}; }

  // x * 2^n for whole numbers n in -126 ... 0.
  static Floats Shift(Floats x, Floats n) { return Multiply(x, PowerOfTwo(n)); }

  // 2^n, of a whole number whose lowest eight bits are n + 127 and the ninth 0: see
  // scalar::kSoftmaxBias.
  static Floats PowerOfBiased(Floats x) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.low), 23)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.high), 23))};
  }

  // x * 2^n * sqrt(v) within an eighth, for x and v in 0 ... 1 and n in 0 ... 100: a float's bits,
  // taken for a whole number, are about its logarithm. 0 where the product is below 2^-63.
  static Floats RoughProduct(Floats x, Floats n, Floats v) {
    return {RoughProduct(x.low, n.low, v.low), RoughProduct(x.high, n.high, v.high)};
  }

  // Lanes i and i + 8 added, then i and i + 4, and so on: the tree of scalar::FoldLanes.
  static float FoldLanes(Floats x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float LargestLane(Floats x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  // Whole numbers of at most 127 in magnitude, nearest to x (ties to even), as bytes.
  static void StoreBytes(int8_t* at, Floats x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0b11'01'10'00);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(at),
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
  }
  // Rounded to the element type, to nearest even.
  static void StoreF16(std::byte* at, Floats x) {
    auto* halves = reinterpret_cast<__m128i*>(at);
    _mm_storeu_si128(halves, _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
  }
  static void StoreBf16(std::byte* at, Floats x) {
    auto* halves = reinterpret_cast<__m128i*>(at);
    _mm_storeu_si128(halves, ToBf16(x.low));
    _mm_storeu_si128(halves + 1, ToBf16(x.high));
  }

 private:
  static __m256i First(int64_t count, int32_t from) {
    const __m256i lane =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
  }
  static __m256 Between(int first, int begin, int end) {
    const __m256i lane =
        _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i from_begin = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(begin - 1));
    const __m256i before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane);
    return _mm256_castsi256_ps(_mm256_and_si256(from_begin, before_end));
  }
  static __m256 LanesOf(uint32_t bits) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i all = _mm256_set1_epi32(static_cast<int32_t>(bits));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, bit), bit));
  }
  static __m256 RoughProduct(__m256 x, __m256 n, __m256 v) {
    const __m256i power = _mm256_cvtps_epi32(_mm256_mul_ps(n, _mm256_set1_ps(1 << 23)));
    const __m256i root = _mm256_srli_epi32(_mm256_castps_si256(v), 1);
    const __m256i bits = _mm256_add_epi32(_mm256_add_epi32(_mm256_castps_si256(x), power), root);
    const __m256i product = _mm256_sub_epi32(bits, _mm256_set1_epi32(scalar::kRoughRootBits));
    return _mm256_castsi256_ps(_mm256_max_epi32(product, _mm256_setzero_si256()));
  }
  static __m256 Power(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  template <DType kType>
  static constexpr int64_t kHalfBytes = kType == DType::kF32    ? 32
                                        : kType == DType::kQ8_0 ? 8
                                                                : 16;
  template <DType kType>
  static __m256 LoadHalf(const std::byte* at) {
    if constexpr (kType == DType::kF32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    } else if constexpr (kType == DType::kQ8_0) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    } else {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      if constexpr (kType == DType::kF16) return _mm256_cvtph_ps(bits);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
  }
  // NaN stays a quiet NaN.
  static __m128i ToBf16(__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040'0000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
};

}  // namespace remontoir
