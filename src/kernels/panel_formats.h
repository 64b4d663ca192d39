// The quantised panel formats as compile-time facts, shared by packing and every product kernel.
#pragma once

#include <cstdint>

#include "kernels/activation_block.h"
#include "kernels/packing.h"

namespace remontoir {

inline constexpr int kSignedBytes = -1;

template <bool kNibblesV, int kQuantMaxV, bool kHalfScalesV, bool kMinimumsV, int kSubBlocksV>
struct QuantFormat {
  static constexpr bool kNibbles = kNibblesV;   // else a byte a weight
  static constexpr int kQuantMax = kQuantMaxV;  // q in 0 ... kQuantMax, or any signed byte
  static constexpr bool kSigned = kQuantMaxV == kSignedBytes;
  static constexpr bool kHalfScales = kHalfScalesV;  // scales and minimums in float16, else float32
  static constexpr bool kMinimums = kMinimumsV;      // stored; nibbles without them have -8 * scale
  static constexpr int kSubBlocks = kSubBlocksV;     // scales per 32 values: 1 or 2
  // Unsigned quants without minimums stand 2^kOffsetShift above their weights; signed ones do so
  // where a kernel has moved them up.
  static constexpr int kOffsetShift = kMinimums ? 0 : kNibbles ? 3 : 7;
  // The i-th group of four k to compute: those that share bytes come together.
  static constexpr int Group(int i) { return kNibbles ? i % 2 * 4 + i / 2 : i; }

  static constexpr int64_t kScaleBytes = kHalfScales ? 2 : 4;
  static constexpr int64_t kQuantsBytes = kPanelRows * kActivationBlock / (kNibbles ? 2 : 1);
  static constexpr int64_t kScalesOffset = kQuantsBytes;
  static constexpr int64_t kMinimumsOffset = kScalesOffset + kSubBlocks * kPanelRows * kScaleBytes;
  static constexpr int64_t kBlockBytes =
      kMinimumsOffset + (kMinimums ? kSubBlocks * kPanelRows * kScaleBytes : 0);
};

using FormatS8 = QuantFormat<false, kSignedBytes, false, false, 1>;
using FormatU4Offset = QuantFormat<true, 15, true, false, 1>;
using FormatU4Half = QuantFormat<true, 15, true, true, 1>;
using FormatU4 = QuantFormat<true, 15, false, true, 1>;
using FormatU5 = QuantFormat<false, 31, false, true, 1>;
using FormatU6Sub16 = QuantFormat<false, 63, false, true, 2>;

}  // namespace remontoir
