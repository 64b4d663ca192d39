// Elementary functions and the reduction tree, one value at a time; vector_math.h has the same
// bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Functions are static: each file compiles them for its own instruction set, and the linker must
// not mix these.
namespace remontoir::scalar {

inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2High = 0.693359375F;  // exact times any exponent
inline constexpr float kLn2Low = -2.12194440e-4F;

// Added and taken off again, it rounds to the nearest whole number, ties to even (|x| < 2^22).
inline constexpr float kRoundingShift = 12582912.0F;  // 1.5 * 2^23

// 2^r = 1 + r * P(r) on |r| <= 1/2, relative error 2.6e-9 before rounding (minimax).
inline constexpr float kExp2P[6] = {0.693147182F,   0.240226522F,   0.0555031039F,
                                    0.00961769279F, 0.00134066364F, 0.000155946574F};
// tanh(x) = x + x^3 * P(x^2) on |x| <= 0.625, relative error 4.4e-9 before rounding (minimax).
inline constexpr float kTanhP[5] = {-0.333332819F, 0.133314425F, -0.0537397449F, 0.0206391891F,
                                    -0.00570510577F};
inline constexpr float kTanhSmall = 0.625F;

inline constexpr float kExp2Min = -126.0F;  // below, results are 0 (no subnormals)
inline constexpr float kExp2Max = 128.0F;   // larger ones are taken for it, and give infinity
inline constexpr float kExpMin = -87.3365448F;
inline constexpr float kExpMax = 89.0F;

// 2^r for |r| <= 1/2.
static inline float Exp2OfFraction(float r) {
  float p = kExp2P[5];
  for (int i = 4; i >= 0; --i) p = std::fma(p, r, kExp2P[i]);
  return std::fma(p, r, 1.0F);
}

// 2^r * 2^n for |r| <= 1/2 and n a whole number in -126 ... 128.
static inline float Exp2Reduced(float r, float n) {
  return Exp2OfFraction(r) * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

// 2^x within 1.5 ulp (from 127.5 on infinity); NaN stays NaN.
static inline float Exp2(float x) {
  if (x != x) return x;
  if (x < kExp2Min) return 0;
  const float clamped = x < kExp2Max ? x : kExp2Max;
  const float n = (clamped + kRoundingShift) - kRoundingShift;
  return Exp2Reduced(clamped - n, n);
}

// Softmax weights are 2^(score - reference) for a whole reference, so that references move by
// exact factors. score + kSoftmaxBias - reference, rounded to float32, is a whole number whose
// lowest eight bits are the exponent of that power with float32's bias of 127.
inline constexpr float kSoftmaxBias = kRoundingShift + 127;
inline constexpr float kSoftmaxBiasedMin = kSoftmaxBias - 125;  // below, weights are 0
// Above, the reference moves. Scores within 256 times of it leave it where it is.
inline constexpr float kSoftmaxBiasedMax = kSoftmaxBias + 8;
inline constexpr float kSoftmaxReferenceMax = 1 << 21;  // beyond, sums with kSoftmaxBias round

struct SoftmaxReference {
  float reference;  // minus infinity: no score yet
  float rescale;    // from the old reference to this one; 1 where there was none: sums are zero
  float offset;     // kSoftmaxBias - reference
  bool settled;     // it stands until a score is above it by more than kSoftmaxBiasedMax says
  bool far;         // beyond kSoftmaxReferenceMax, or infinite
};

// The reference after scores of which `largest` is the largest one.
static inline SoftmaxReference MoveReference(float reference, float largest) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float whole = std::ceil(largest);
  const float moved = whole > reference ? whole : reference;  // which NaN doesn't move
  // Scores that are all minus infinity weigh nothing.
  const float from = moved == kNone ? 0.0F : moved;
  const bool far = std::fabs(from) > kSoftmaxReferenceMax;
  return {.reference = moved,
          .rescale = reference == from || reference == kNone ? 1.0F : Exp2(reference - from),
          .offset = kSoftmaxBias - from,
          .settled = moved != kNone && !far,
          .far = far};
}

// The weight of a score = dot * factor; `biased` = dot * factor + offset, rounded once.
static inline float SoftmaxWeight(float dot, float factor, float offset, float biased) {
  if (biased < kSoftmaxBiasedMin) return 0;
  const float fraction = std::fma(dot, factor, -(biased - offset));
  const auto power = std::bit_cast<uint32_t>(biased) << 23;
  return Exp2OfFraction(fraction) * std::bit_cast<float>(power);
}

// What the weighted values of a row are multiplied by, whose weights have this sum; `sink_logit`
// (null: none) weighs too. 0 where nothing does.
static inline float FinishFactor(float reference, float sum, const float* sink_logit) {
  if (sink_logit == nullptr) return sum == 0 ? 0.0F : 1.0F / sum;
  const float sink = *sink_logit * kLog2E;
  const float max = std::fmax(reference, sink);
  const float factor = Exp2(reference - max);
  const float total = std::fma(sum, factor, Exp2(sink - max));
  return total == 0 ? 0.0F : factor / total;
}

// e^x within 2 ulp (from 88.4 on infinity); NaN stays NaN.
static inline float Exp(float x) {
  if (x != x) return x;
  if (x < kExpMin) return 0;
  const float clamped = x < kExpMax ? x : kExpMax;
  const float n = (clamped * kLog2E + kRoundingShift) - kRoundingShift;
  float r = std::fma(n, -kLn2High, clamped);
  r = std::fma(n, -kLn2Low, r);
  return Exp2Reduced(r * kLog2E, n);
}

static inline float Tanh(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < kTanhSmall) {
    const float square = x * x;
    float p = kTanhP[4];
    for (int i = 3; i >= 0; --i) p = std::fma(p, square, kTanhP[i]);
    return std::fma(x * square, p, x);
  }
  const float large = 1.0F - 2.0F / (Exp(2.0F * magnitude) + 1.0F);
  return std::copysign(large, x);
}

// gelu's u = x * (kGeluLinear + kGeluCubic * x^2): sqrt(2/pi), and that times 0.044715.
inline constexpr float kGeluLinear = 0.797884561F;
inline constexpr float kGeluCubic = 0.0356774081F;

// The bits of a float are about its logarithm: half of them and the bits of 1, less this, are about
// those of its square root.
inline constexpr int32_t kRoughRootBits = 0x1fc2'e20b;

// The clamped swiglu's bound of gate and up, and the slope of its sigmoid.
inline constexpr float kSwigluBound = 7.0F;
inline constexpr float kSwigluSlope = 1.702F;

inline constexpr float kQuantisedMin = 0x1p-100F;  // a block of smaller values is all zeros

// Float16 bits: positive infinity, above which are the NaNs, and the quiet NaN.
inline constexpr uint16_t kHalfInfinity = 0x7c00;
inline constexpr uint16_t kHalfNan = 0x7e00;

inline constexpr int kLanes = 16;  // of every reduction, whatever the vector width

// Sum of 16 lanes: halves added to each other until one is left.
static inline float FoldLanes(const float (&lanes)[kLanes]) {
  float sums[kLanes / 2];
  for (int i = 0; i < 8; ++i) sums[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) sums[i] += sums[i + 4];
  for (int i = 0; i < 2; ++i) sums[i] += sums[i + 2];
  return sums[0] + sums[1];
}

}  // namespace remontoir::scalar
