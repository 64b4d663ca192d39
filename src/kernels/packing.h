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
inline constexpr int64_t kPackingVersion = 2;

// How a panel holds its rows. Float formats: [in_width][16]. Quantised formats, for each 32 values
// of k: the quants of 8 groups of four k, [8][16][4] bytes; of nibbles [4][16][4] bytes, group g in
// the low and group g + 4 in the high half, then of fifth bits [16][4] bytes, group g in bit g, or
// of two bits more [2][16][4] bytes, group g in bits 2 (g % 4) of half g / 4. Then scales [16] and
// minimums [16], per 16 k in the `Sub16` forms. The `Steps` and `Sub16` forms but kMXFP4Sub16 have
// the quants of 256 values of k together, and then the steps of the scales [16] and of the minimums
// [16] in float16, all the scales and all the minimums in whole steps, a signed byte each.
enum class PanelFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kS8,             // signed bytes, float16 scale                          Q8_0
  kIQ4Half,        // nibbles to look up, float16 scale                    IQ4_NL
  kIQ4Steps,       //                                                      IQ4_XS
  kMXFP4,          // nibbles to look up, float32 scale                    MXFP4
  kU4Offset,       // nibbles less 8, float16 scale                        Q4_0, TQ1_0, TQ2_0
  kU4Half,         // nibbles, float16 scale and minimum                   Q4_1
  kU4Steps,        // nibbles                                              Q4_K
  kU5Offset,       // 5 bits less 16, float16 scale                        Q5_0
  kU5Half,         // 5 bits, float16 scale and minimum                    Q5_1
  kU5Steps,        // 5 bits                                               Q5_K
  kU4Sub16,        // nibbles                                              Q2_K
  kU4Sub16Offset,  // nibbles less 4, no minimum                           Q3_K
  kU6Sub16,        // 6 bits less 32, no minimum                           Q6_K
  kMXFP4Sub16,     // nibbles to look up, float16 scale per 16             NVFP4
  kIQ1Sub16,       // nibbles to look up                                   IQ1_S, IQ1_M
  kIQ2Sub16,       //                                                      IQ2_XXS, IQ2_XS, IQ2_S
  kIQ3XXSSteps,    //                                                      IQ3_XXS
  kIQ3SSteps,      //                                                      IQ3_S
};
inline constexpr int kPanelFormatCount = 21;

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

// The same of one panel, to layout.panel_bytes at `panel`.
void PackPanel(const PackedLayout& layout, DType type, const std::byte* rows, int64_t index,
               std::byte* panel);

}  // namespace remontoir
