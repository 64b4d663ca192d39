// Latent attention's matrices up to keys and values, out of files that have them fused.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/tensor_view.h"

namespace remontoir {

// The views' bytes are the vectors'; moving keeps them.
struct LatentUp {
  std::vector<std::byte> key_bytes;
  std::vector<std::byte> value_bytes;
  TensorView key;    // [heads][rank][plain key width], float32
  TensorView value;  // [heads][value width][rank], in the file's type
};

// `key` and `value` have the wanted shapes and types and the fused matrix's bytes (tensor_table.h):
// of each head the rows of its key, [plain key width][rank], then those of its value. Keys are
// transposed, for which they must leave the file's blocks: float32 keeps them exact.
LatentUp SplitLatentUp(const TensorView& key, const TensorView& value);

}  // namespace remontoir
