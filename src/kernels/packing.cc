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
    case DType::kQ8_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4: return PanelFormat::kS8;
    case DType::kQ4_0: return PanelFormat::kU4Offset;
    case DType::kQ4_1: return PanelFormat::kU4Half;
    case DType::kQ4_K: return PanelFormat::kU4;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K: return PanelFormat::kU5;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ6_K: return PanelFormat::kU6Sub16;
  }
  REM_CHECK(false, "element type without a panel format");
}

// Bytes of 32 k (quantised formats) or of one k (float formats) of a panel.
int64_t StepBytes(PanelFormat format) {
  switch (format) {
    case PanelFormat::kF32: return 4 * kPanelRows;
    case PanelFormat::kF16:
    case PanelFormat::kBF16: return 2 * kPanelRows;
    case PanelFormat::kS8: return FormatS8::kBlockBytes;
    case PanelFormat::kU4Offset: return FormatU4Offset::kBlockBytes;
    case PanelFormat::kU4Half: return FormatU4Half::kBlockBytes;
    case PanelFormat::kU4: return FormatU4::kBlockBytes;
    case PanelFormat::kU5: return FormatU5::kBlockBytes;
    case PanelFormat::kU6Sub16: return FormatU6Sub16::kBlockBytes;
  }
  REM_CHECK(false, "unknown panel format");
}

// Stores `value` in place `index` of an array of float16 (exact for what is stored so) or float32.
template <bool kHalf>
void StoreScale(float value, int64_t index, std::byte* out) {
  if constexpr (kHalf) {
    const uint16_t half = FloatToHalf(value);
    std::memcpy(out + 2 * index, &half, 2);
  } else {
    std::memcpy(out + 4 * index, &value, 4);
  }
}

// Writes one row's 32 weights into its lane of a panel block.
template <class Format>
void StoreBlock(const WeightBlock& block, int64_t row, std::byte* panel_block) {
  // Four k at a time: they lie side by side in a lane.
  constexpr int kGroups = kActivationBlock / 4;
  std::array<uint32_t, kGroups> groups;
  std::memcpy(groups.data(), block.q.data(), sizeof groups);
  constexpr int kStored = Format::kNibbles ? kGroups / 2 : kGroups;
  for (int group = 0; group < kStored; ++group) {
    const auto low = static_cast<size_t>(group);
    uint32_t stored = groups[low];
    // Nibbles are below 16: none moves into its neighbour's byte.
    if constexpr (Format::kNibbles) stored |= groups[low + kStored] << 4;
    std::memcpy(panel_block + (group * kPanelRows + row) * 4, &stored, 4);
  }
  for (int64_t sub = 0; sub < Format::kSubBlocks; ++sub) {
    const int64_t lane = sub * kPanelRows + row;
    const auto index = static_cast<size_t>(sub);
    StoreScale<Format::kHalfScales>(block.scale[index], lane, panel_block + Format::kScalesOffset);
    if constexpr (Format::kMinimums) {
      StoreScale<Format::kHalfScales>(block.minimum[index], lane,
                                      panel_block + Format::kMinimumsOffset);
    }
  }
}

template <class Format>
void PackQuantisedRow(DType type, const std::byte* row_bytes, int64_t in_width, int64_t row,
                      std::byte* panel) {
  for (int64_t b = 0; b < in_width / kActivationBlock; ++b) {
    WeightBlock block;
    DecodeWeightBlock(type, row_bytes, b, &block);
    StoreBlock<Format>(block, row, panel + b * Format::kBlockBytes);
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
  switch (format) {
    case PanelFormat::kF32: return PackFloatRow(type, row_bytes, in_width, row, panel);
    case PanelFormat::kF16:
    case PanelFormat::kBF16: return PackHalfRow(row_bytes, in_width, row, panel);
    case PanelFormat::kS8: return PackQuantisedRow<FormatS8>(type, row_bytes, in_width, row, panel);
    case PanelFormat::kU4Offset:
      return PackQuantisedRow<FormatU4Offset>(type, row_bytes, in_width, row, panel);
    case PanelFormat::kU4Half:
      return PackQuantisedRow<FormatU4Half>(type, row_bytes, in_width, row, panel);
    case PanelFormat::kU4: return PackQuantisedRow<FormatU4>(type, row_bytes, in_width, row, panel);
    case PanelFormat::kU5: return PackQuantisedRow<FormatU5>(type, row_bytes, in_width, row, panel);
    case PanelFormat::kU6Sub16:
      return PackQuantisedRow<FormatU6Sub16>(type, row_bytes, in_width, row, panel);
  }
}

}  // namespace

PackedLayout PlanPacking(DType type, int64_t out_width, int64_t in_width, bool float32) {
  PackedLayout layout;
  layout.format = float32 ? PanelFormat::kF32 : FormatOf(type);
  layout.out_width = out_width;
  layout.in_width = in_width;
  const int64_t step = IsFloatFormat(layout.format) ? 1 : kActivationBlock;
  REM_CHECK(in_width % step == 0, "a quantised row is a whole number of blocks");
  layout.panel_bytes = in_width / step * StepBytes(layout.format);
  return layout;
}

void PackPanels(const PackedLayout& layout, DType type, const std::byte* rows, int64_t panel_begin,
                int64_t panel_end, std::byte* packed) {
  const int64_t row_bytes = RowBytes(type, layout.in_width);
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    std::byte* panel = packed + p * layout.panel_bytes;
    const int64_t first = p * kPanelRows;
    const int64_t count = std::min<int64_t>(kPanelRows, layout.out_width - first);
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(layout.panel_bytes));
    for (int64_t row = 0; row < count; ++row) {
      PackRow(layout.format, type, rows + (first + row) * row_bytes, layout.in_width, row, panel);
    }
  }
}

}  // namespace remontoir
