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

template <bool kHalf>
float Scale(const std::byte* at, int64_t index) {
  if constexpr (kHalf) return HalfToFloat(Read<uint16_t>(at, index));
  return Read<float>(at, index);
}

template <class Format>
int Quant(const std::byte* block, int64_t lane, int64_t k) {
  const int64_t group = Format::kNibbles ? k / 4 % 4 : k / 4;
  const auto byte = static_cast<uint8_t>(block[(group * kPanelRows + lane) * 4 + k % 4]);
  if constexpr (Format::kNibbles) return k < 16 ? byte & 15 : byte >> 4;
  if constexpr (Format::kSigned) return static_cast<int8_t>(byte);
  return byte;
}

template <PanelFormat kFormat>
float FloatElement(const std::byte* panel, int64_t lane, const float* in, int64_t in_width) {
  float sum = 0;
  for (int64_t k = 0; k < in_width; ++k) {
    sum = std::fma(in[k], FloatWeight<kFormat>(panel, k * kPanelRows + lane), sum);
  }
  return sum;
}

// A block's part of an output in units of the activation's scale: per sub-block the scale times the
// whole-number product, then the minimums times the activation sums.
template <class Format>
float BlockValue(const std::byte* block, int64_t lane, const ActivationBlock& in) {
  constexpr int64_t kSubWidth = kActivationBlock / Format::kSubBlocks;
  const std::byte* scales = block + Format::kScalesOffset;
  float value = 0;
  for (int64_t sub = 0; sub < Format::kSubBlocks; ++sub) {
    int32_t product = 0;
    if constexpr (Format::kNibbles && !Format::kMinimums)
      product = -8 * static_cast<int32_t>(in.sum);
    for (int64_t k = sub * kSubWidth; k < (sub + 1) * kSubWidth; ++k) {
      product += Quant<Format>(block, lane, k) * in.q[k];
    }
    const auto exact = static_cast<float>(product);
    const float scale = Scale<Format::kHalfScales>(scales, sub * kPanelRows + lane);
    value = sub == 0 ? exact * scale : std::fma(exact, scale, value);
  }
  if constexpr (Format::kMinimums) {
    const std::byte* minimums = block + Format::kMinimumsOffset;
    if constexpr (Format::kSubBlocks == 1) {
      return std::fma(in.sum, Scale<Format::kHalfScales>(minimums, lane), value);
    }
    value = std::fma(in.sum_low, Scale<Format::kHalfScales>(minimums, lane), value);
    value = std::fma(in.sum_high, Scale<Format::kHalfScales>(minimums, kPanelRows + lane), value);
  }
  return value;
}

template <class Format>
float QuantisedElement(const std::byte* panel, int64_t lane, const ActivationBlock* in,
                       int64_t in_width) {
  float sum = 0;
  for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
    sum = std::fma(BlockValue<Format>(panel + b * Format::kBlockBytes, lane, in[b]), in[b].scale,
                   sum);
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

template <PanelFormat kFormat, class Format>
void SetQuantised(KernelTable* table) {
  table->quantised_product[static_cast<size_t>(kFormat)] =
      &Product<ActivationBlock, &QuantisedElement<Format>>;
}

}  // namespace

void InstallScalarProducts(KernelTable* table) {
  SetFloat<PanelFormat::kF32>(table);
  SetFloat<PanelFormat::kF16>(table);
  SetFloat<PanelFormat::kBF16>(table);
  SetQuantised<PanelFormat::kS8, FormatS8>(table);
  SetQuantised<PanelFormat::kU4Offset, FormatU4Offset>(table);
  SetQuantised<PanelFormat::kU4Half, FormatU4Half>(table);
  SetQuantised<PanelFormat::kU4, FormatU4>(table);
  SetQuantised<PanelFormat::kU5, FormatU5>(table);
  SetQuantised<PanelFormat::kU6Sub16, FormatU6Sub16>(table);
}

}  // namespace remontoir
