// Weight matrices in the order in which the matrix product reads them: panels of 16 output rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace remontoir {

inline constexpr int kPanelRows =
    16;  // output rows of a panel; the last panel is padded with zeros

// Packed weights are kept on disk under this number: whoever changes what PackPanels writes raises
// it. A test holds the bytes of every type to it.
inline constexpr int64_t kPackingVersion = 1;

// How a panel holds its rows. Float formats: [in_width][16]. Quantised formats, for each 32 values
// of k: the quants of 8 groups of four k, [8][16][4] bytes (nibbles: [4][16][4] bytes, group g in
// the low and group g + 4 in the high half), then scales [16] and minimums [16], per 16 k in the
// `Sub16` form. A weight is scale * q + minimum.
enum class PanelFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kS8,        // signed bytes, float32 scale                          Q8_0 IQ4_NL IQ4_XS MXFP4
  kU4Offset,  // nibbles, float16 scale, minimum = -8 * scale         Q4_0
  kU4Half,    // nibbles, float16 scale and minimum                   Q4_1
  kU4,        // nibbles, float32 scale and minimum                   Q4_K
  kU5,        // bytes 0 ... 31, float32 scale and minimum            Q5_0 Q5_1 Q5_K
  kU6Sub16,   // bytes 0 ... 63, float32 scale and minimum per 16        Q2_K Q3_K Q6_K
};
inline constexpr int kPanelFormatCount = 9;

constexpr bool IsFloatFormat(PanelFormat format) { return format <= PanelFormat::kBF16; }

struct PackedLayout {
  PanelFormat format = PanelFormat::kF32;
  int64_t out_width = 0;
  int64_t in_width = 0;
  int64_t panel_bytes = 0;  // a multiple of 32; keep the base aligned to 64

  int64_t panel_count() const { return (out_width + kPanelRows - 1) / kPanelRows; }
  int64_t bytes() const { return panel_bytes * panel_count(); }
};

// The layout of a [out_width][in_width] matrix. in_width is a whole number of blocks of `type`.
// With `float32` every type becomes kF32; otherwise weights keep their own precision exactly.
PackedLayout PlanPacking(DType type, int64_t out_width, int64_t in_width, bool float32);

// Packs panels [panel_begin, panel_end) of the matrix whose file bytes start at `rows`; `packed` is
// where panel 0 lies. Different panels may be packed by different threads.
void PackPanels(const PackedLayout& layout, DType type, const std::byte* rows, int64_t panel_begin,
                int64_t panel_end, std::byte* packed);

}  // namespace remontoir
