// What the steps of a round are, for those who time them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/program.h"
#include "kernels/packing.h"

namespace remontoir {

enum class StepKind : uint8_t {
  kRows,            // embedding, norms, 8-bit forms, RoPE, gates, sums, routing
  kProducts,        // dense matrices of the layers
  kExpertProducts,  // matrices of the experts
  kLogits,          // the product with the output matrix
  kAttention,
};
inline constexpr int kStepKindCount = 5;

struct StepDescription {
  // A matrix that a step multiplies with.
  struct Product {
    PanelFormat format = PanelFormat::kF32;
    int64_t out_width = 0;
    int64_t in_width = 0;
    int64_t bytes = 0;   // packed, of all experts
    int32_t passes = 1;  // 2: activations in two 8-bit forms, each multiplied
  };

  StepKind kind = StepKind::kRows;
  RowSpace rows = RowSpace::kTokens;  // that its products take
  std::vector<Product> products;      // of one row; for experts of its own expert
};

}  // namespace remontoir
