// Rows of values are copied as they are, those of keys become columns.
#include "model/latent_up.h"

#include <cstring>

#include "kernels/dequantise.h"

namespace remontoir {
namespace {

TensorView Owned(const TensorView& view, std::vector<std::byte>& bytes) {
  bytes.resize(static_cast<size_t>(RowBytes(view.type, view.columns()) * view.rows()));
  TensorView owned = view;
  owned.data = bytes.data();
  owned.size_bytes = static_cast<int64_t>(bytes.size());
  return owned;
}

}  // namespace

LatentUp SplitLatentUp(const TensorView& key, const TensorView& value) {
  LatentUp up;
  up.key = Owned(key, up.key_bytes);
  up.value = Owned(value, up.value_bytes);
  const int64_t heads = key.shape[2];
  const int64_t rank = key.shape[1];
  const int64_t key_rows = key.columns();
  const int64_t value_rows = value.shape[1];
  const int64_t row_bytes = RowBytes(value.type, rank);
  std::vector<float> row(static_cast<size_t>(rank));
  const std::byte* from = value.data;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t r = 0; r < key_rows; ++r, from += row_bytes) {
      DequantiseRow(value.type, from, rank, row.data());
      std::byte* to = up.key_bytes.data() + (head * rank * key_rows + r) * int64_t{sizeof(float)};
      for (const float weight : row) {
        std::memcpy(to, &weight, sizeof(weight));
        to += key_rows * int64_t{sizeof(float)};
      }
    }
    const int64_t run_bytes = value_rows * row_bytes;
    std::memcpy(up.value_bytes.data() + head * run_bytes, from, static_cast<size_t>(run_bytes));
    from += run_bytes;
  }
  return up;
}

}  // namespace remontoir
