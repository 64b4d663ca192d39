// The table of element types and GGML's numbers for them.
#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace remontoir {
namespace {

// In the order of DType.
constexpr std::array<DTypeInfo, kDTypeCount> kInfos = {{
    {"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},       {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},     {"Q5_0", 32, 22},    {"Q5_1", 32, 24},     {"Q8_0", 32, 34},
    {"Q2_K", 256, 84},    {"Q3_K", 256, 110},  {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},   {"IQ4_NL", 32, 18},  {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
    {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},  {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},
    {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ2_S", 256, 82},   {"IQ3_XXS", 256, 98},
    {"IQ3_S", 256, 110},  {"NVFP4", 64, 36},
}};

// Index = GGML's number. Q4_2, Q4_3 and the repacked forms (Q4_0_4_4 … IQ4_NL_8_8) were removed
// from the format; their numbers are never used again.
constexpr std::array<std::string_view, 43> kGgmlNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0",
};

}  // namespace

const DTypeInfo& Info(DType type) {
  const auto index = static_cast<size_t>(type);
  REM_CHECK(index < kInfos.size(), "not a DType");
  return kInfos[index];
}

int64_t RowBytes(DType type, int64_t elements) {
  const DTypeInfo& info = Info(type);
  REM_CHECK(elements >= 0 && elements % info.block_elements == 0,
            "a row is a whole number of blocks");
  return elements / info.block_elements * info.block_bytes;
}

std::optional<DType> DTypeFromGgml(uint32_t ggml_type) {
  const std::string_view name = GgmlTypeName(ggml_type);
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string_view GgmlTypeName(uint32_t ggml_type) {
  return ggml_type < kGgmlNames.size() ? kGgmlNames[ggml_type] : "unknown";
}

}  // namespace remontoir
