// Element types of weights, activations and KV, and how many bytes their blocks take.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace remontoir {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kTQ1_0,
  kTQ2_0,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kNVFP4,
};
inline constexpr int kDTypeCount = 26;

struct DTypeInfo {
  std::string_view name;   // as public tools spell it: "Q4_1"
  int32_t block_elements;  // values a block holds; a row is a whole number of blocks
  int32_t block_bytes;
};

const DTypeInfo& Info(DType type);

// Bytes of a row of `elements` values, which must be a multiple of the block.
int64_t RowBytes(DType type, int64_t elements);

// The type with this GGML number, if it is one we know.
std::optional<DType> DTypeFromGgml(uint32_t ggml_type);
// The name of any GGML type number, known to this build or not ("IQ2_XS"), for messages.
std::string_view GgmlTypeName(uint32_t ggml_type);

}  // namespace remontoir
