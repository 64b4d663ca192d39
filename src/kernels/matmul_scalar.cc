// Matrix products one element at a time: the definition of the order of arithmetic.
#include <cmath>
#include <cstring>

#include "kernels/install.h"
#include "kernels/panel_formats.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

template <class T>
T Read(const std::byte* at, int64_t index) {
  T value;
  std::memcpy(&value, at + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <PanelFormat kFormat>
float FloatWeight(const std::byte* panel, int64_t index) {
  if constexpr (kFormat == PanelFormat::kF32) return Read<float>(panel, index);
  if constexpr (kFormat == PanelFormat::kF16) return HalfToFloat(Read<uint16_t>(panel, index));
  if constexpr (kFormat == PanelFormat::kBF16) return Bf16ToFloat(Read<uint16_t>(panel, index));
}

// The scale or minimum of a sub-block of block `block` of a span.
template <class Format>
float Scale(const std::byte* span, bool minimum, int64_t block, int64_t sub, int64_t lane) {
  const std::byte* scales = span + Format::ScalesAt(minimum, block, sub);
  if constexpr (Format::kScales == ScaleForm::kFloat) return Read<float>(scales, lane);
  if constexpr (Format::kScales == ScaleForm::kHalf) {
    return HalfToFloat(Read<uint16_t>(scales, lane));
  }
  const float step = HalfToFloat(Read<uint16_t>(span + Format::StepsAt(minimum), lane));
  return step * static_cast<float>(Read<int8_t>(scales, lane)) * Format::kStepsPart;
}

template <class Format>
int Quant(const std::byte* quants, int64_t lane, int64_t k) {
  const auto byte = [&](int64_t place) {
    return int{Read<uint8_t>(quants, (place * kPanelRows + lane) * 4 + k % 4)};
  };
  const int64_t group = k / 4;
  if constexpr (!Format::kNibbles) return static_cast<int8_t>(byte(group));
  const int nibble = group < 4 ? byte(group) & 15 : byte(group - 4) >> 4;
  if constexpr (Format::kLookedUp) return Format::Values()[static_cast<size_t>(nibble)];
  if constexpr (Format::kHighBits == 1) return nibble | (byte(4) >> group & 1) << 4;
  if constexpr (Format::kHighBits == 2) {
    return nibble | (byte(4 + group / 4) >> 2 * (group % 4) & 3) << 4;
  }
  return nibble;
}

template <PanelFormat kFormat>
float FloatElement(const std::byte* panel, int64_t lane, const float* in, int64_t in_width) {
  float sum = 0;
  for (int64_t k = 0; k < in_width; ++k) {
    sum = std::fma(in[k], FloatWeight<kFormat>(panel, k * kPanelRows + lane), sum);
  }
  return sum;
}

// The part of block `block` of a span in an output, in units of the activation's scale: per
// sub-block the scale times the whole-number product, then the minimums times the activation sums.
template <class Format>
float BlockValue(const std::byte* span, int64_t block, int64_t lane, const ActivationBlock& in) {
  constexpr int64_t kSubWidth = kActivationBlock / Format::kSubBlocks;
  const std::byte* quants = span + Format::QuantsAt(block);
  float value = 0;
  for (int64_t sub = 0; sub < Format::kSubBlocks; ++sub) {
    int32_t product = 0;
    for (int64_t k = sub * kSubWidth; k < (sub + 1) * kSubWidth; ++k) {
      product += (Quant<Format>(quants, lane, k) - Format::kOffset) * in.q[k];
    }
    const auto exact = static_cast<float>(product);
    const float scale = Scale<Format>(span, false, block, sub, lane);
    value = sub == 0 ? exact * scale : std::fma(exact, scale, value);
  }
  if constexpr (Format::kMinimums) {
    for (int64_t sub = 0; sub < Format::kSubBlocks; ++sub) {
      const float sum = Format::kSubBlocks == 1 ? in.sum : sub == 0 ? in.sum_low : in.sum_high;
      value = std::fma(sum, Scale<Format>(span, true, block, sub, lane), value);
    }
  }
  return value;
}

template <class Format>
float QuantisedElement(const std::byte* panel, int64_t lane, const ActivationBlock* in,
                       int64_t in_width) {
  float sum = 0;
  for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
    const std::byte* span = panel + b / Format::kSpan * Format::kSpanBytes;
    sum = std::fma(BlockValue<Format>(span, b % Format::kSpan, lane, in[b]), in[b].scale, sum);
  }
  return sum;
}

template <class Input, float (*kElement)(const std::byte*, int64_t, const Input*, int64_t)>
void Product(const PanelProduct<Input>& product) {
  for (int64_t r = 0; r < product.rows; ++r) {
    const int64_t row = product.row_index != nullptr ? product.row_index[r] : r;
    const Input* in = product.in + row * (product.row_pairs ? 2 : 1) * product.in_stride;
    float* out = product.out + r * product.out_stride;
    for (int64_t c = 0; c < product.columns; ++c) {
      const std::byte* panel = product.panels + c / kPanelRows * product.panel_bytes;
      out[c] = kElement(panel, c % kPanelRows, in, product.in_width);
      if (!product.row_pairs) continue;
      out[c] += kElement(panel, c % kPanelRows, in + product.in_stride, product.in_width);
    }
  }
}

template <PanelFormat kFormat>
void SetFloat(KernelTable* table) {
  table->float_product[static_cast<size_t>(kFormat)] = &Product<float, &FloatElement<kFormat>>;
}

}  // namespace

void InstallScalarProducts(KernelTable* table) {
  SetFloat<PanelFormat::kF32>(table);
  SetFloat<PanelFormat::kF16>(table);
  SetFloat<PanelFormat::kBF16>(table);
  ForEachQuantFormat([&]<PanelFormat kFormat, class Format>() {
    table->quantised_product[static_cast<size_t>(kFormat)] =
        &Product<ActivationBlock, &QuantisedElement<Format>>;
  });
}

}  // namespace remontoir
