// Everything between products and attention with AVX2, FMA and F16C.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/install.h"
#include "kernels/math_avx2.h"
#include "tensor/kv_layout.h"

namespace remontoir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Ones in the first `count` lanes: for loads and stores that stop at a row's end.
inline __m256i FirstLanes(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
}

// Calls body(index, mask, whole) for runs of eight values; the last run may be short.
template <class Body>
inline void ForEachEight(int64_t width, const Body& body) {
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) body(i, __m256i{}, std::true_type{});
  if (i < width) body(i, FirstLanes(width - i), std::false_type{});
}

template <class Whole>
inline __m256 Load(const float* at, __m256i mask, Whole) {
  return Whole::value ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, mask);
}

template <class Whole>
inline void Store(float* at, __m256i mask, Whole, __m256 value) {
  if constexpr (Whole::value) {
    _mm256_storeu_ps(at, value);
  } else {
    _mm256_maskstore_ps(at, mask, value);
  }
}

// out = operation(a, b), value by value.
template <class Operation>
inline void MapTwo(const float* a, const float* b, int64_t width, float* out,
                   const Operation& operation) {
  ForEachEight(width, [&](int64_t i, __m256i mask, auto whole) {
    Store(out + i, mask, whole, operation(Load(a + i, mask, whole), Load(b + i, mask, whole)));
  });
}

template <class Operation>
inline void MapOne(int64_t width, float* inout, const Operation& operation) {
  ForEachEight(width, [&](int64_t i, __m256i mask, auto whole) {
    Store(inout + i, mask, whole, operation(Load(inout + i, mask, whole)));
  });
}

int32_t SumOfLanes(__m256i x) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

void QuantiseBlock(const float* in, ActivationBlock* out) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0F);
  const __m256 finite_max = _mm256_set1_ps(std::numeric_limits<float>::max());
  __m256 x[4];
  __m256 largest_lanes = _mm256_setzero_ps();
  __m256 finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  for (int v = 0; v < 4; ++v) {
    x[v] = _mm256_loadu_ps(in + 8 * v);
    const __m256 magnitude = _mm256_andnot_ps(sign_bit, x[v]);
    finite = _mm256_and_ps(finite, _mm256_cmp_ps(magnitude, finite_max, _CMP_LE_OQ));
    largest_lanes = _mm256_max_ps(magnitude, largest_lanes);
  }
  const bool all_finite = _mm256_movemask_ps(finite) == 0xff;
  const float largest = avx2::LargestLane(largest_lanes);
  if (!all_finite || largest < scalar::kQuantisedMin) {
    *out = {};
    if (!all_finite) out->scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const __m256 inverse = _mm256_set1_ps(127.0F / largest);
  __m256i q[4];
  for (int v = 0; v < 4; ++v) q[v] = _mm256_cvtps_epi32(_mm256_mul_ps(x[v], inverse));
  // Packing works within 128-bit halves: the permutation puts runs of four back in order.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q),
                      _mm256_permutevar8x32_epi32(bytes, order));
  out->scale = largest / 127.0F;
  out->sum_low = static_cast<float>(SumOfLanes(_mm256_add_epi32(q[0], q[1])));
  out->sum_high = static_cast<float>(SumOfLanes(_mm256_add_epi32(q[2], q[3])));
  out->sum = out->sum_low + out->sum_high;
}

void QuantiseRow(const float* in, int64_t width, ActivationBlock* out) {
  for (int64_t b = 0; b < width / kActivationBlock; ++b) {
    QuantiseBlock(in + b * kActivationBlock, out + b);
  }
}

// Eight values as bfloat16, rounded to nearest even; NaN stays a quiet NaN.
inline __m128i ToBf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040'0000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

// Calls store(index, bytes, count) for runs of up to eight values in the element type.
template <class StoreRun>
inline void Convert(const float* in, int width, DType type, const StoreRun& store) {
  alignas(32) std::byte run[32];
  ForEachEight(width, [&](int64_t i, __m256i mask, auto whole) {
    const __m256 values = Load(in + i, mask, whole);
    if (type == DType::kF32) {
      _mm256_store_ps(reinterpret_cast<float*>(run), values);
    } else {
      const __m128i bits =
          type == DType::kF16 ? _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT) : ToBf16(values);
      _mm_store_si128(reinterpret_cast<__m128i*>(run), bits);
    }
    store(i, run, std::min<int64_t>(8, width - i));
  });
}

void StoreValue(const float* value, int width, DType type, int slot, std::byte* head_values) {
  const int64_t bytes = type == DType::kF32 ? 4 : 2;
  std::byte* row = head_values + static_cast<int64_t>(slot) * width * bytes;
  Convert(value, width, type, [&](int64_t i, const std::byte* run, int64_t count) {
    std::memcpy(row + i * bytes, run, static_cast<size_t>(count * bytes));
  });
}

template <size_t kBytes>
inline void StoreKeyOf(const float* key, int width, DType type, int slot, std::byte* head_keys) {
  const int64_t first =
      static_cast<int64_t>(slot / kKvPanelKeys) * width * kKvPanelKeys + slot % kKvPanelKeys;
  Convert(key, width, type, [&](int64_t i, const std::byte* run, int64_t count) {
    for (int64_t d = 0; d < count; ++d) {
      std::memcpy(head_keys + (first + (i + d) * kKvPanelKeys) * static_cast<int64_t>(kBytes),
                  run + d * static_cast<int64_t>(kBytes), kBytes);
    }
  });
}

void StoreKey(const float* key, int width, DType type, int slot, std::byte* head_keys) {
  if (type == DType::kF32) return StoreKeyOf<4>(key, width, type, slot, head_keys);
  StoreKeyOf<2>(key, width, type, slot, head_keys);
}

void RopeInterleaved(float* head, int pairs, const float* cos, const float* sin) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  for (int i = 0; i < pairs; i += 4) {
    const int64_t count = std::min(4, pairs - i);
    const __m256i mask = FirstLanes(2 * count);
    const __m128i pair_mask = _mm256_castsi256_si128(FirstLanes(count));
    const auto spread = [&](const float* at) {
      const __m128 four = _mm_maskload_ps(at + i, pair_mask);
      return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), twice);
    };
    const __m256 x = _mm256_maskload_ps(head + 2 * i, mask);
    const __m256 swapped = _mm256_permute_ps(x, 0b10'11'00'01);
    const __m256 crossed = _mm256_mul_ps(swapped, spread(sin));
    _mm256_maskstore_ps(head + 2 * i, mask, _mm256_fmaddsub_ps(x, spread(cos), crossed));
  }
}

void RopeHalves(float* head, int pairs, const float* cos, const float* sin) {
  ForEachEight(pairs, [&](int64_t i, __m256i mask, auto whole) {
    const __m256 x = Load(head + i, mask, whole);
    const __m256 y = Load(head + pairs + i, mask, whole);
    const __m256 c = Load(cos + i, mask, whole);
    const __m256 s = Load(sin + i, mask, whole);
    Store(head + i, mask, whole, _mm256_fmsub_ps(x, c, _mm256_mul_ps(y, s)));
    Store(head + pairs + i, mask, whole, _mm256_fmadd_ps(y, c, _mm256_mul_ps(x, s)));
  });
}

void RmsNorm(const float* in, const float* weight, float epsilon, int64_t width, float* out) {
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  ForEachEight(width, [&](int64_t i, __m256i mask, auto whole) {
    const __m256 x = Load(in + i, mask, whole);  // zeros past the end add nothing
    __m256& lane = lanes[i / 8 % 2];
    lane = _mm256_fmadd_ps(x, x, lane);
  });
  const float mean = avx2::FoldLanes(lanes[0], lanes[1]) / static_cast<float>(width);
  const __m256 factor = _mm256_set1_ps(1.0F / std::sqrt(mean + epsilon));
  MapTwo(in, weight, width, out,
         [&](__m256 x, __m256 w) { return _mm256_mul_ps(_mm256_mul_ps(x, factor), w); });
}

// x / (1 + e^exponent) * up
inline __m256 Gate(__m256 x, __m256 exponent, __m256 up) {
  const __m256 denominator = _mm256_add_ps(_mm256_set1_ps(1.0F), avx2::Exp(exponent));
  return _mm256_mul_ps(_mm256_div_ps(x, denominator), up);
}

void SiluGate(const float* gate, const float* up, int64_t width, float* out) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0F);
  MapTwo(gate, up, width, out,
         [&](__m256 x, __m256 u) { return Gate(x, _mm256_xor_ps(x, sign_bit), u); });
}

void GeluTanhGate(const float* gate, const float* up, int64_t width, float* out) {
  MapTwo(gate, up, width, out, [](__m256 x, __m256 u) {
    const __m256 slope = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(scalar::kGeluCubic),
                                         _mm256_set1_ps(scalar::kGeluLinear));
    return Gate(x, _mm256_mul_ps(_mm256_set1_ps(-2.0F), _mm256_mul_ps(x, slope)), u);
  });
}

void Add(const float* in, int64_t width, float* inout) {
  MapTwo(in, inout, width, inout, [](__m256 a, __m256 b) { return _mm256_add_ps(b, a); });
}

void Scale(float factor, int64_t width, float* inout) {
  const __m256 factors = _mm256_set1_ps(factor);
  MapOne(width, inout, [&](__m256 x) { return _mm256_mul_ps(x, factors); });
}

void SoftCap(float cap, int64_t width, float* inout) {
  const __m256 caps = _mm256_set1_ps(cap);
  const __m256 inverse = _mm256_set1_ps(1.0F / cap);
  MapOne(width, inout,
         [&](__m256 x) { return _mm256_mul_ps(avx2::Tanh(_mm256_mul_ps(x, inverse)), caps); });
}

void AddScaled(const float* in, float factor, int64_t width, float* inout) {
  const __m256 factors = _mm256_set1_ps(factor);
  MapTwo(in, inout, width, inout,
         [&](__m256 a, __m256 b) { return _mm256_fmadd_ps(a, factors, b); });
}

// The largest value, NaN aside; minus infinity when there is none.
float Largest(const float* in, int64_t width) {
  __m256 largest = _mm256_set1_ps(-kInfinity);
  ForEachEight(width, [&](int64_t i, __m256i mask, auto whole) {
    __m256 x = Load(in + i, mask, whole);
    if constexpr (!decltype(whole)::value) {
      x = _mm256_blendv_ps(_mm256_set1_ps(-kInfinity), x, _mm256_castsi256_ps(mask));
    }
    largest = _mm256_max_ps(x, largest);
  });
  return avx2::LargestLane(largest);
}

int64_t ArgMax(const float* in, int64_t width) {
  if (std::isnan(in[0])) return 0;  // nothing compares as larger
  const float largest = Largest(in, width);
  const __m256 wanted = _mm256_set1_ps(largest);
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    const __m256 equal = _mm256_cmp_ps(_mm256_loadu_ps(in + i), wanted, _CMP_EQ_OQ);
    const auto found = static_cast<unsigned>(_mm256_movemask_ps(equal));
    if (found != 0) return i + std::countr_zero(found);
  }
  while (in[i] != largest) ++i;
  return i;
}

float LogSumExp(const float* in, int64_t width) {
  const float max = Largest(in, width);
  if (max == -kInfinity) return max;
  const __m256 reference = _mm256_set1_ps(max);
  double total = 0;
  for (int64_t begin = 0; begin < width; begin += scalar::kLogSumPiece) {
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    const int64_t count = std::min(scalar::kLogSumPiece, width - begin);
    ForEachEight(count, [&](int64_t i, __m256i mask, auto whole) {
      __m256 power = avx2::Exp(_mm256_sub_ps(Load(in + begin + i, mask, whole), reference));
      if constexpr (!decltype(whole)::value) {
        power = _mm256_and_ps(power, _mm256_castsi256_ps(mask));
      }
      __m256& lane = lanes[i / 8 % 2];
      lane = _mm256_add_ps(lane, power);
    });
    total += static_cast<double>(avx2::FoldLanes(lanes[0], lanes[1]));
  }
  return static_cast<float>(static_cast<double>(max) + std::log(total));
}

}  // namespace

void InstallAvx2Rows(KernelTable* table) {
  table->quantise_row = &QuantiseRow;
  table->store_key = &StoreKey;
  table->store_value = &StoreValue;
  table->rope_interleaved = &RopeInterleaved;
  table->rope_halves = &RopeHalves;
  table->rms_norm = &RmsNorm;
  table->silu_gate = &SiluGate;
  table->gelu_tanh_gate = &GeluTanhGate;
  table->add = &Add;
  table->scale = &Scale;
  table->soft_cap = &SoftCap;
  table->add_scaled = &AddScaled;
  table->argmax = &ArgMax;
  table->log_sum_exp = &LogSumExp;
}

}  // namespace remontoir
