// Every panel format with a weight type that is packed so, and a product by format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/packing.h"
#include "tensor/dtype.h"
#include "tests/support/kernel_cases.h"

namespace remontoir {

// By PanelFormat.
inline constexpr DType kTypeOfFormat[] = {
    DType::kF32,   DType::kF16,     DType::kBF16, DType::kQ8_0, DType::kIQ4_NL, DType::kIQ4_XS,
    DType::kMXFP4, DType::kQ4_0,    DType::kQ4_1, DType::kQ4_K, DType::kQ5_0,   DType::kQ5_1,
    DType::kQ5_K,  DType::kQ2_K,    DType::kQ3_K, DType::kQ6_K, DType::kNVFP4,  DType::kIQ1_M,
    DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};
static_assert(sizeof(kTypeOfFormat) / sizeof(DType) == kPanelFormatCount);

// Runs the table's kernel for panels of this format.
inline void RunProduct(const KernelTable& table, PanelFormat format, const FloatProduct& product) {
  table.float_product[static_cast<size_t>(format)](product);
}
inline void RunProduct(const KernelTable& table, PanelFormat format,
                       const QuantisedProduct& product) {
  table.quantised_product[static_cast<size_t>(format)](product);
}

// Rows of activations as a kernel of either kind reads them.
inline std::vector<ActivationBlock> QuantisedRows(const std::vector<float>& in) {
  std::vector<ActivationBlock> blocks(in.size() / kActivationBlock);
  ScalarKernels().quantise_row(in.data(), static_cast<int64_t>(in.size()), blocks.data());
  return blocks;
}

// What packing makes of a matrix; 64-byte alignment is up to whoever copies it.
inline std::vector<std::byte> Packed(const PackedLayout& layout, DType type,
                                     const std::vector<std::byte>& weights) {
  std::vector<std::byte> packed(static_cast<size_t>(layout.bytes()));
  PackPanels(layout, type, weights.data(), 0, layout.panel_count(), packed.data());
  return packed;
}

}  // namespace remontoir
