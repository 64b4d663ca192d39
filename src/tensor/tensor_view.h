// A tensor somebody else owns: type, shape and where its bytes are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace remontoir {

inline constexpr int kTensorRankMax = 4;

struct TensorView {
  DType type = DType::kF32;
  int rank = 0;
  // Innermost first, as GGUF writes it: shape[0] values are a contiguous row. Unused entries are 1.
  std::array<int64_t, kTensorRankMax> shape = {1, 1, 1, 1};
  const std::byte* data = nullptr;
  int64_t size_bytes = 0;

  int64_t columns() const { return shape[0]; }
  int64_t rows() const { return shape[1] * shape[2] * shape[3]; }
};

}  // namespace remontoir
