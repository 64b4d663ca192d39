// Everything between products and attention, one value at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/install.h"
#include "kernels/math_scalar.h"
#include "tensor/half.h"
#include "tensor/kv_layout.h"

namespace remontoir {
namespace {

void QuantiseBlock(const float* in, ActivationBlock* out) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < kActivationBlock; ++i) {
    const float magnitude = std::fabs(in[i]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  *out = {};
  if (!finite) out->scale = std::numeric_limits<float>::quiet_NaN();
  if (!finite || largest < scalar::kQuantisedMin) return;
  const float inverse = 127.0F / largest;
  int32_t sums[2] = {};
  for (int i = 0; i < kActivationBlock; ++i) {
    const float rounded =
        (in[i] * inverse + scalar::kRoundingShift) - scalar::kRoundingShift;  // |.| <= 127
    out->q[i] = static_cast<int8_t>(rounded);
    sums[i / 16] += out->q[i];
  }
  out->scale = largest / 127.0F;
  out->sum_low = static_cast<float>(sums[0]);
  out->sum_high = static_cast<float>(sums[1]);
  out->sum = out->sum_low + out->sum_high;
}

void QuantiseRow(const float* in, int64_t width, ActivationBlock* out) {
  for (int64_t b = 0; b < width / kActivationBlock; ++b) {
    QuantiseBlock(in + b * kActivationBlock, out + b);
  }
}

void QuantiseRowFine(const float* in, int64_t width, ActivationBlock* first,
                     ActivationBlock* second) {
  for (int64_t b = 0; b < width / kActivationBlock; ++b, in += kActivationBlock) {
    QuantiseBlock(in, first + b);
    std::array<float, kActivationBlock> remainder;
    for (int i = 0; i < kActivationBlock; ++i) {
      remainder[static_cast<size_t>(i)] = in[i] - first[b].scale * first[b].q[i];
    }
    QuantiseBlock(remainder.data(), second + b);
  }
}

void StoreElement(float value, DType type, int64_t index, std::byte* out) {
  if (type == DType::kF32) {
    std::memcpy(out + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits = type == DType::kF16 ? FloatToHalf(value) : FloatToBf16(value);
  std::memcpy(out + 2 * index, &bits, 2);
}

// A q8_0 block of a token's key or value, as kv_layout.h has it; returns the scale's float16.
uint16_t QuantiseKvBlock(const float* in, int count, int8_t* out) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const float magnitude = std::fabs(in[i]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  std::fill_n(out, count, int8_t{0});
  const uint16_t scale = FloatToHalf(largest / 127.0F);
  if (!finite || scale >= scalar::kHalfInfinity) return scalar::kHalfNan;
  if (scale == 0) return scale;
  const float inverse = 1.0F / HalfToFloat(scale);
  for (int i = 0; i < count; ++i) {
    const float q = std::clamp(in[i] * inverse, -127.0F, 127.0F);
    out[i] = static_cast<int8_t>((q + scalar::kRoundingShift) - scalar::kRoundingShift);
  }
  return scale;
}

// Value d of the token goes to head[first + d * stride].
void StoreQuantised(const float* in, int width, int slot, int64_t first, int64_t stride,
                    std::byte* head) {
  std::byte* scale_at = head + KvScalesOffset(width) + int64_t{2} * slot;
  for (int d = 0; d < width; d += kKvScaleBlock) {
    const int count = std::min(kKvScaleBlock, width - d);
    int8_t quants[kKvScaleBlock];
    const uint16_t scale = QuantiseKvBlock(in + d, count, quants);
    std::memcpy(scale_at, &scale, 2);
    scale_at += int64_t{2} * kKvPageTokens;
    for (int i = 0; i < count; ++i) {
      head[first + (d + i) * stride] = static_cast<std::byte>(quants[i]);
    }
  }
}

void StoreKey(const float* key, int width, DType type, int slot, std::byte* head_keys) {
  const int64_t first =
      static_cast<int64_t>(slot / kKvPanelKeys) * width * kKvPanelKeys + slot % kKvPanelKeys;
  if (type == DType::kQ8_0) {
    return StoreQuantised(key, width, slot, first, kKvPanelKeys, head_keys);
  }
  for (int d = 0; d < width; ++d) {
    StoreElement(key[d], type, first + int64_t{d} * kKvPanelKeys, head_keys);
  }
}

void StoreValue(const float* value, int width, DType type, int slot, std::byte* head_values) {
  const int64_t first = static_cast<int64_t>(slot) * width;
  if (type == DType::kQ8_0) return StoreQuantised(value, width, slot, first, 1, head_values);
  for (int d = 0; d < width; ++d) {
    StoreElement(value[d], type, first + d, head_values);
  }
}

void Rotate(float cos, float sin, float* x, float* y) {
  const float old_x = *x;
  *x = std::fma(old_x, cos, -(*y * sin));
  *y = std::fma(*y, cos, old_x * sin);
}

void RopeInterleaved(float* head, int pairs, const float* cos, const float* sin) {
  for (int i = 0; i < pairs; ++i) Rotate(cos[i], sin[i], head + 2 * i, head + 2 * i + 1);
}

void RopeHalves(float* head, int pairs, const float* cos, const float* sin) {
  for (int i = 0; i < pairs; ++i) Rotate(cos[i], sin[i], head + i, head + pairs + i);
}

void RmsNorm(const float* in, const float* weight, float epsilon, int64_t width, float* out) {
  float lanes[scalar::kLanes] = {};
  for (int64_t i = 0; i < width; ++i) {
    float& lane = lanes[i % scalar::kLanes];
    lane = std::fma(in[i], in[i], lane);
  }
  const float mean = scalar::FoldLanes(lanes) / static_cast<float>(width);
  const float factor = 1.0F / std::sqrt(mean + epsilon);
  for (int64_t i = 0; i < width; ++i) out[i] = in[i] * factor * weight[i];
}

void SiluGate(const float* gate, const float* up, int64_t width, float* out) {
  for (int64_t i = 0; i < width; ++i) {
    out[i] = gate[i] / (1.0F + scalar::Exp(-gate[i])) * up[i];
  }
}

// x/2 (1 + tanh u) = x / (1 + e^(-2u)) with u = sqrt(2/pi) (x + 0.044715 x^3).
void GeluTanhGate(const float* gate, const float* up, int64_t width, float* out) {
  for (int64_t i = 0; i < width; ++i) {
    const float x = gate[i];
    const float u = x * std::fma(x * x, scalar::kGeluCubic, scalar::kGeluLinear);
    out[i] = x / (1.0F + scalar::Exp(-2.0F * u)) * up[i];
  }
}

void ClampedSwigluGate(const float* gate, const float* up, int64_t width, float* out) {
  constexpr float kBound = scalar::kSwigluBound;
  for (int64_t i = 0; i < width; ++i) {  // a NaN stays one
    const float x = gate[i] > kBound ? kBound : gate[i];
    const float smaller = up[i] > kBound ? kBound : up[i];
    const float u = smaller < -kBound ? -kBound : smaller;
    out[i] = x / (1.0F + scalar::Exp(-scalar::kSwigluSlope * x)) * (u + 1.0F);
  }
}

void Add(const float* in, int64_t width, float* inout) {
  for (int64_t i = 0; i < width; ++i) inout[i] += in[i];
}

void Scale(float factor, int64_t width, float* inout) {
  for (int64_t i = 0; i < width; ++i) inout[i] *= factor;
}

void SoftCap(float cap, int64_t width, float* inout) {
  const float inverse = 1.0F / cap;
  for (int64_t i = 0; i < width; ++i) inout[i] = scalar::Tanh(inout[i] * inverse) * cap;
}

void AddScaled(const float* in, float factor, int64_t width, float* inout) {
  for (int64_t i = 0; i < width; ++i) inout[i] = std::fma(in[i], factor, inout[i]);
}

}  // namespace

void InstallScalarRows(KernelTable* table) {
  table->quantise_row = &QuantiseRow;
  table->quantise_row_fine = &QuantiseRowFine;
  table->store_key = &StoreKey;
  table->store_value = &StoreValue;
  table->rope_interleaved = &RopeInterleaved;
  table->rope_halves = &RopeHalves;
  table->rms_norm = &RmsNorm;
  table->silu_gate = &SiluGate;
  table->gelu_tanh_gate = &GeluTanhGate;
  table->clamped_swiglu_gate = &ClampedSwigluGate;
  table->add = &Add;
  table->scale = &Scale;
  table->soft_cap = &SoftCap;
  table->add_scaled = &AddScaled;
}

}  // namespace remontoir
