// Reorders weight rows into panels, tensor by tensor, when a model is loaded.
#include "kernels/packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "kernels/panel_formats.h"
#include "kernels/weight_block.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

PanelFormat FormatOf(DType type) {
  switch (type) {
    case DType::kF32: return PanelFormat::kF32;
    case DType::kF16: return PanelFormat::kF16;
    case DType::kBF16: return PanelFormat::kBF16;
    case DType::kQ8_0: return PanelFormat::kS8;
    case DType::kIQ4_NL: return PanelFormat::kIQ4Half;
    case DType::kIQ4_XS: return PanelFormat::kIQ4Steps;
    case DType::kMXFP4: return PanelFormat::kMXFP4;
    case DType::kQ4_0: return PanelFormat::kU4Offset;
    case DType::kQ4_1: return PanelFormat::kU4Half;
    case DType::kQ4_K: return PanelFormat::kU4Steps;
    case DType::kQ5_0: return PanelFormat::kU5Offset;
    case DType::kQ5_1: return PanelFormat::kU5Half;
    case DType::kQ5_K: return PanelFormat::kU5Steps;
    case DType::kQ2_K: return PanelFormat::kU4Sub16;
    case DType::kQ3_K: return PanelFormat::kU4Sub16Offset;
    case DType::kQ6_K: return PanelFormat::kU6Sub16;
    case DType::kTQ1_0:
    case DType::kTQ2_0: return PanelFormat::kU4Offset;
    case DType::kNVFP4: return PanelFormat::kMXFP4Sub16;
    case DType::kIQ1_S:
    case DType::kIQ1_M: return PanelFormat::kIQ1Sub16;
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S: return PanelFormat::kIQ2Sub16;
    case DType::kIQ3_XXS: return PanelFormat::kIQ3XXSSteps;
    case DType::kIQ3_S: return PanelFormat::kIQ3SSteps;
  }
  REM_CHECK(false, "element type without a panel format");
}

// Bytes of `in_width` columns of a panel.
int64_t PanelBytes(PanelFormat format, int64_t in_width) {
  if (IsFloatFormat(format)) {
    return in_width * kPanelRows * (format == PanelFormat::kF32 ? 4 : 2);
  }
  int64_t bytes = 0;
  ForEachQuantFormat([&]<PanelFormat kFormat, class Format>() {
    if (kFormat != format) return;
    constexpr int64_t kSpanWidth = Format::kSpan * kActivationBlock;
    REM_CHECK(in_width % kSpanWidth == 0, "a quantised row is a whole number of blocks");
    bytes = in_width / kSpanWidth * Format::kSpanBytes;
  });
  return bytes;
}

void StoreHalf(float value, std::byte* out) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(out, &half, 2);
}

// A scale or minimum in the form of the format, which is exact for it.
template <class Format>
void StoreScale(float value, int8_t steps, std::byte* out) {
  if constexpr (Format::kScales == ScaleForm::kSteps) {
    *out = static_cast<std::byte>(steps);
  } else if constexpr (Format::kScales == ScaleForm::kHalf) {
    StoreHalf(value, out);
  } else {
    std::memcpy(out, &value, 4);
  }
}

// By value + 128, the nibble that stands for it.
template <class Format>
constexpr std::array<uint8_t, 256> NibblesOfValues() {
  std::array<uint8_t, 256> nibbles{};
  for (int i = 0; i < 16; ++i) {
    nibbles[static_cast<size_t>(Format::Values()[static_cast<size_t>(i)] + 128)] =
        static_cast<uint8_t>(i);
  }
  return nibbles;
}

// Writes one row's 32 quants into its lane of a block.
template <class Format>
void StoreQuants(const WeightBlock& block, int64_t row, std::byte* quants) {
  // Four k at a time: they lie side by side in a lane.
  constexpr size_t kGroups = kActivationBlock / 4;
  std::array<uint32_t, kGroups> groups;
  std::memcpy(groups.data(), block.q.data(), sizeof groups);
  const auto store = [&](size_t place, uint32_t four) {
    std::memcpy(quants + (static_cast<int64_t>(place) * kPanelRows + row) * 4, &four, 4);
  };
  if constexpr (!Format::kNibbles) {
    for (size_t g = 0; g < kGroups; ++g) store(g, groups[g]);
    return;
  }
  if constexpr (Format::kLookedUp) {
    static constexpr std::array<uint8_t, 256> kNibbles = NibblesOfValues<Format>();
    std::array<uint8_t, kActivationBlock> nibbles;
    for (size_t k = 0; k < nibbles.size(); ++k) {
      nibbles[k] = kNibbles[static_cast<size_t>(block.q[k] + 128)];
    }
    std::memcpy(groups.data(), nibbles.data(), sizeof groups);
  }
  constexpr uint32_t kLow = 0x0f0f0f0f;
  for (size_t g = 0; g < 4; ++g) store(g, (groups[g] & kLow) | (groups[g + 4] & kLow) << 4);
  // The bits above the nibbles, those of one group side by side.
  constexpr size_t kPlanes = Format::kHighBits;
  for (size_t plane = 0; plane < kPlanes; ++plane) {
    constexpr uint32_t kHigh = kPlanes == 1 ? 0x01010101 : 0x03030303;
    constexpr size_t kPlaneGroups = kGroups / std::max<size_t>(kPlanes, 1);
    uint32_t bits = 0;
    for (size_t i = 0; i < kPlaneGroups; ++i) {
      bits |= (groups[plane * kPlaneGroups + i] >> 4 & kHigh) << kPlanes * i;
    }
    store(4 + plane, bits);
  }
}

// Writes one row's 32 weights into its lane of a span, as block `index` there.
template <class Format>
void StoreBlock(const WeightBlock& block, int64_t row, int64_t index, std::byte* span) {
  StoreQuants<Format>(block, row, span + Format::QuantsAt(index));
  if (Format::kSpan > 1 && index == 0) {
    StoreHalf(block.step, span + Format::StepsAt(false) + 2 * row);
    if (Format::kMinimums) StoreHalf(block.minimum_step, span + Format::StepsAt(true) + 2 * row);
  }
  const int64_t lane = row * Format::kScaleBytes;
  for (int64_t sub = 0; sub < Format::kSubBlocks; ++sub) {
    const auto i = static_cast<size_t>(sub);
    StoreScale<Format>(block.scale[i], block.scale_steps[i],
                       span + Format::ScalesAt(false, index, sub) + lane);
    if constexpr (Format::kMinimums) {
      StoreScale<Format>(block.minimum[i], block.minimum_steps[i],
                         span + Format::ScalesAt(true, index, sub) + lane);
    }
  }
}

template <class Format>
void PackQuantisedRow(DType type, const std::byte* row_bytes, int64_t in_width, int64_t row,
                      std::byte* panel) {
  for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
    WeightBlock block;
    DecodeWeightBlock(type, row_bytes, b, &block);
    StoreBlock<Format>(block, row, b % Format::kSpan,
                       panel + b / Format::kSpan * Format::kSpanBytes);
  }
}

// Sixteen-bit weights stay as they are.
void PackHalfRow(const std::byte* row_bytes, int64_t in_width, int64_t row, std::byte* panel) {
  for (int64_t k = 0; k < in_width; ++k) {
    std::memcpy(panel + (k * kPanelRows + row) * 2, row_bytes + k * 2, 2);
  }
}

void PackFloatRow(DType type, const std::byte* row_bytes, int64_t in_width, int64_t row,
                  std::byte* panel) {
  // A whole number of blocks of every type: rows are dequantised piece by piece.
  constexpr int64_t kPiece = 1024;
  std::array<float, kPiece> values;
  for (int64_t begin = 0; begin < in_width; begin += kPiece) {
    const int64_t count = std::min(kPiece, in_width - begin);
    DequantiseRow(type, row_bytes + RowBytes(type, begin), count, values.data());
    for (int64_t k = 0; k < count; ++k) {
      std::memcpy(panel + ((begin + k) * kPanelRows + row) * 4, &values[static_cast<size_t>(k)], 4);
    }
  }
}

void PackRow(PanelFormat format, DType type, const std::byte* row_bytes, int64_t in_width,
             int64_t row, std::byte* panel) {
  if (format == PanelFormat::kF32) return PackFloatRow(type, row_bytes, in_width, row, panel);
  if (IsFloatFormat(format)) return PackHalfRow(row_bytes, in_width, row, panel);
  ForEachQuantFormat([&]<PanelFormat kFormat, class Format>() {
    if (kFormat == format) PackQuantisedRow<Format>(type, row_bytes, in_width, row, panel);
  });
}

}  // namespace

PackedLayout PlanPacking(DType type, int64_t out_width, int64_t in_width, bool float32) {
  PackedLayout layout;
  layout.format = float32 ? PanelFormat::kF32 : FormatOf(type);
  layout.out_width = out_width;
  layout.in_width = in_width;
  layout.panel_bytes = PanelBytes(layout.format, in_width);
  return layout;
}

void PackPanels(const PackedLayout& layout, DType type, const std::byte* rows, int64_t panel_begin,
                int64_t panel_end, std::byte* packed) {
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    PackPanel(layout, type, rows, p, packed + p * layout.panel_bytes);
  }
}

void PackPanel(const PackedLayout& layout, DType type, const std::byte* rows, int64_t index,
               std::byte* panel) {
  const int64_t row_bytes = RowBytes(type, layout.in_width);
  const int64_t first = index * kPanelRows;
  const int64_t count = std::min<int64_t>(kPanelRows, layout.out_width - first);
  if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(layout.panel_bytes));
  for (int64_t row = 0; row < count; ++row) {
    PackRow(layout.format, type, rows + (first + row) * row_bytes, layout.in_width, row, panel);
  }
}

}  // namespace remontoir
