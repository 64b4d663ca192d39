// The quantised panel formats as compile-time facts, shared by packing and every product kernel.
#pragma once

#include <cstdint>

#include "kernels/activation_block.h"
#include "kernels/packing.h"

namespace remontoir {

template <bool kNibblesV, bool kSignedV, bool kHalfScalesV, bool kMinimumsV, int kSubBlocksV>
struct QuantFormat {
  static constexpr bool kNibbles = kNibblesV;        // else a byte a weight
  static constexpr bool kSigned = kSignedV;          // q in -128 ... 127
  static constexpr bool kHalfScales = kHalfScalesV;  // scales and minimums in float16, else float32
  static constexpr bool kMinimums = kMinimumsV;      // stored; nibbles without them have -8 * scale
  static constexpr int kSubBlocks = kSubBlocksV;     // scales per 32 values: 1 or 2

  static constexpr int64_t kScaleBytes = kHalfScales ? 2 : 4;
  static constexpr int64_t kQuantsBytes = kPanelRows * kActivationBlock / (kNibbles ? 2 : 1);
  static constexpr int64_t kScalesOffset = kQuantsBytes;
  static constexpr int64_t kMinimumsOffset = kScalesOffset + kSubBlocks * kPanelRows * kScaleBytes;
  static constexpr int64_t kBlockBytes =
      kMinimumsOffset + (kMinimums ? kSubBlocks * kPanelRows * kScaleBytes : 0);
};

using FormatS8 = QuantFormat<false, true, false, false, 1>;
using FormatU4Offset = QuantFormat<true, false, true, false, 1>;
using FormatU4Half = QuantFormat<true, false, true, true, 1>;
using FormatU4 = QuantFormat<true, false, false, true, 1>;
using FormatU6 = QuantFormat<false, false, false, true, 1>;
using FormatU6Sub16 = QuantFormat<false, false, false, true, 2>;

}  // namespace remontoir
