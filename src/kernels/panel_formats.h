// The quantised panel formats as compile-time facts, shared by packing and every product kernel.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/activation_block.h"
#include "kernels/packing.h"
#include "tensor/block_layouts.h"

namespace remontoir {

enum class QuantForm : uint8_t {
  kNibbles,   // 0 ... 15
  kFiveBits,  // nibbles and a fifth bit
  kSixBits,   // nibbles and two bits more
  kIQ4,       // nibbles that stand for kIQ4Values
  kMXFP4,     // nibbles that stand for kMXFP4Values
  kIQ1,       // likewise the values of the codebook types
  kIQ2,
  kIQ3_XXS,
  kIQ3_S,
  kSignedBytes
};

enum class ScaleForm : uint8_t {
  kHalf,   // float16
  kFloat,  // float32
  kSteps,  // a signed byte of steps; a float16 step for each 256 values
};

// A weight is scale * (q - kOffset) + minimum. Where the quants and scales of 32 values of k lie in
// a panel is told in packing.h.
template <QuantForm kFormV, ScaleForm kScalesV, bool kMinimumsV, int kOffsetV, int kSubBlocksV>
struct QuantFormat {
  static constexpr QuantForm kForm = kFormV;
  static constexpr ScaleForm kScales = kScalesV;
  static constexpr bool kMinimums = kMinimumsV;   // stored, in the form of the scales
  static constexpr int kOffset = kOffsetV;        // 0 or a power of two
  static constexpr int kSubBlocks = kSubBlocksV;  // scales per 32 values: 1 or 2

  static constexpr bool kLookedUp = kForm >= QuantForm::kIQ4 && kForm <= QuantForm::kIQ3_S;
  static constexpr bool kSigned = kLookedUp || kForm == QuantForm::kSignedBytes;
  static constexpr bool kNibbles = kForm != QuantForm::kSignedBytes;
  static constexpr int kHighBits = kForm == QuantForm::kFiveBits  ? 1
                                   : kForm == QuantForm::kSixBits ? 2
                                                                  : 0;
  static constexpr int kQuantMax = (16 << kHighBits) - 1;  // of unsigned ones
  // What the nibbles of kLookedUp stand for.
  static constexpr const std::array<int8_t, 16>& Values() {
    switch (kForm) {
      case QuantForm::kIQ1: return kIQ1Values;
      case QuantForm::kIQ2: return kIQ2Values;
      case QuantForm::kIQ3_XXS: return kIQ3_XXSValues;
      case QuantForm::kIQ3_S: return kIQ3_SValues;
      case QuantForm::kMXFP4: return kMXFP4Values;
      default: return kIQ4Values;
    }
  }
  // What the steps of scales are parts of, a power of two: 1 where they are whole.
  static constexpr float kStepsPart = kForm == QuantForm::kIQ1 || kForm == QuantForm::kIQ2 ? 0.125F
                                      : kForm == QuantForm::kIQ3_XXS                       ? 0.25F
                                                                                           : 1.0F;
  // The i-th group of four k to compute: those that share bytes come together.
  static constexpr int Group(int i) { return kNibbles && kSubBlocks == 1 ? i % 2 * 4 + i / 2 : i; }

  static constexpr int64_t kHighBitsOffset = kPanelRows * kActivationBlock / 2;
  static constexpr int64_t kQuantsBytes =
      kPanelRows * kActivationBlock * (kNibbles ? 4 + kHighBits : 8) / 8;

  // Blocks of 32 values that stand under one head of scales.
  static constexpr int kSpan = kScales == ScaleForm::kSteps ? 8 : 1;
  static constexpr int64_t kScaleBytes = kScales == ScaleForm::kSteps  ? 1
                                         : kScales == ScaleForm::kHalf ? 2
                                                                       : 4;
  static constexpr int64_t kStepsBytes = kSpan > 1 ? (kMinimums ? 2 : 1) * 2 * kPanelRows : 0;
  static constexpr int64_t kScalesBytes = kSpan * kSubBlocks * kPanelRows * kScaleBytes;
  static constexpr int64_t kHeadBytes =
      (kStepsBytes + (kMinimums ? 2 : 1) * kScalesBytes + 31) / 32 * 32;
  static constexpr int64_t kSpanBytes = kSpan * kQuantsBytes + kHeadBytes;

  // From the beginning of a span: quants of block `block`, its scales or minimums of `sub`.
  static constexpr int64_t QuantsAt(int64_t block) { return block * kQuantsBytes; }
  static constexpr int64_t StepsAt(bool minimums) {
    return kSpan * kQuantsBytes + (minimums ? 2 * kPanelRows : 0);
  }
  static constexpr int64_t ScalesAt(bool minimums, int64_t block, int64_t sub) {
    return kSpan * kQuantsBytes + kStepsBytes + (minimums ? kScalesBytes : 0) +
           (block * kSubBlocks + sub) * kPanelRows * kScaleBytes;
  }
};

using FormatS8 = QuantFormat<QuantForm::kSignedBytes, ScaleForm::kHalf, false, 0, 1>;
using FormatIQ4Half = QuantFormat<QuantForm::kIQ4, ScaleForm::kHalf, false, 0, 1>;
using FormatIQ4Steps = QuantFormat<QuantForm::kIQ4, ScaleForm::kSteps, false, 0, 1>;
using FormatMXFP4 = QuantFormat<QuantForm::kMXFP4, ScaleForm::kFloat, false, 0, 1>;
using FormatU4Offset = QuantFormat<QuantForm::kNibbles, ScaleForm::kHalf, false, 8, 1>;
using FormatU4Half = QuantFormat<QuantForm::kNibbles, ScaleForm::kHalf, true, 0, 1>;
using FormatU4Steps = QuantFormat<QuantForm::kNibbles, ScaleForm::kSteps, true, 0, 1>;
using FormatU5Offset = QuantFormat<QuantForm::kFiveBits, ScaleForm::kHalf, false, 16, 1>;
using FormatU5Half = QuantFormat<QuantForm::kFiveBits, ScaleForm::kHalf, true, 0, 1>;
using FormatU5Steps = QuantFormat<QuantForm::kFiveBits, ScaleForm::kSteps, true, 0, 1>;
using FormatU4Sub16 = QuantFormat<QuantForm::kNibbles, ScaleForm::kSteps, true, 0, 2>;
using FormatU4Sub16Offset = QuantFormat<QuantForm::kNibbles, ScaleForm::kSteps, false, 4, 2>;
using FormatU6Sub16 = QuantFormat<QuantForm::kSixBits, ScaleForm::kSteps, false, 32, 2>;
using FormatMXFP4Sub16 = QuantFormat<QuantForm::kMXFP4, ScaleForm::kHalf, false, 0, 2>;
using FormatIQ1Sub16 = QuantFormat<QuantForm::kIQ1, ScaleForm::kSteps, false, 0, 2>;
using FormatIQ2Sub16 = QuantFormat<QuantForm::kIQ2, ScaleForm::kSteps, false, 0, 2>;
using FormatIQ3XXSSteps = QuantFormat<QuantForm::kIQ3_XXS, ScaleForm::kSteps, false, 0, 1>;
using FormatIQ3SSteps = QuantFormat<QuantForm::kIQ3_S, ScaleForm::kSteps, false, 0, 1>;

// Calls visit.operator()<format, its facts>() for every quantised format.
template <class Visit>
constexpr void ForEachQuantFormat(const Visit& visit) {
  visit.template operator()<PanelFormat::kS8, FormatS8>();
  visit.template operator()<PanelFormat::kIQ4Half, FormatIQ4Half>();
  visit.template operator()<PanelFormat::kIQ4Steps, FormatIQ4Steps>();
  visit.template operator()<PanelFormat::kMXFP4, FormatMXFP4>();
  visit.template operator()<PanelFormat::kU4Offset, FormatU4Offset>();
  visit.template operator()<PanelFormat::kU4Half, FormatU4Half>();
  visit.template operator()<PanelFormat::kU4Steps, FormatU4Steps>();
  visit.template operator()<PanelFormat::kU5Offset, FormatU5Offset>();
  visit.template operator()<PanelFormat::kU5Half, FormatU5Half>();
  visit.template operator()<PanelFormat::kU5Steps, FormatU5Steps>();
  visit.template operator()<PanelFormat::kU4Sub16, FormatU4Sub16>();
  visit.template operator()<PanelFormat::kU4Sub16Offset, FormatU4Sub16Offset>();
  visit.template operator()<PanelFormat::kU6Sub16, FormatU6Sub16>();
  visit.template operator()<PanelFormat::kMXFP4Sub16, FormatMXFP4Sub16>();
  visit.template operator()<PanelFormat::kIQ1Sub16, FormatIQ1Sub16>();
  visit.template operator()<PanelFormat::kIQ2Sub16, FormatIQ2Sub16>();
  visit.template operator()<PanelFormat::kIQ3XXSSteps, FormatIQ3XXSSteps>();
  visit.template operator()<PanelFormat::kIQ3SSteps, FormatIQ3SSteps>();
}

}  // namespace remontoir
