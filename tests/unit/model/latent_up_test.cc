// Facts about fused latent matrices: keys are transposed head by head, values stay as they are.
#include "model/latent_up.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/dequantise.h"

namespace remontoir {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kRank = 32;
constexpr int64_t kKeyRows = 3;
constexpr int64_t kValueRows = 2;

struct Fused {
  DType type;
  std::vector<std::byte> bytes;  // [heads * (key rows + value rows)][rank]

  TensorView View(DType view_type, int64_t columns, int64_t rows) const {
    return {
        view_type, 3, {columns, rows, kHeads, 1}, bytes.data(), static_cast<int64_t>(bytes.size())};
  }
  std::vector<float> Row(int64_t row) const {
    std::vector<float> values(static_cast<size_t>(kRank));
    DequantiseRow(type, bytes.data() + row * RowBytes(type, kRank), kRank, values.data());
    return values;
  }
};

Fused MakeFused(DType type) {
  Fused fused{type, {}};
  fused.bytes.resize(static_cast<size_t>(kHeads * (kKeyRows + kValueRows) * RowBytes(type, kRank)));
  if (type == DType::kF32) {
    for (size_t at = 0; at < fused.bytes.size(); at += sizeof(float)) {
      const auto value = static_cast<float>(at);
      std::memcpy(&fused.bytes[at], &value, sizeof(value));
    }
    return fused;
  }
  for (size_t at = 0; at < fused.bytes.size(); ++at) {
    fused.bytes[at] = static_cast<std::byte>(at * 7);
  }
  // Scales of blocks: float16, finite.
  for (size_t at = 0; at < fused.bytes.size(); at += static_cast<size_t>(RowBytes(type, kRank))) {
    fused.bytes[at + 1] = std::byte{0x2c};
  }
  return fused;
}

TEST(SplitLatentUp, TransposesKeysAndCopiesValues) {
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    SCOPED_TRACE(std::string(Info(type).name));
    const Fused fused = MakeFused(type);
    const LatentUp up = SplitLatentUp(fused.View(DType::kF32, kKeyRows, kRank),
                                      fused.View(type, kRank, kValueRows));
    EXPECT_EQ(up.key.size_bytes, kHeads * kRank * kKeyRows * 4);
    EXPECT_EQ(up.value.size_bytes, kHeads * kValueRows * RowBytes(type, kRank));
    const auto* keys = reinterpret_cast<const float*>(up.key.data);
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t first = head * (kKeyRows + kValueRows);
      for (int64_t r = 0; r < kKeyRows; ++r) {
        const std::vector<float> row = fused.Row(first + r);
        for (int64_t k = 0; k < kRank; ++k) {
          EXPECT_EQ(keys[(head * kRank + k) * kKeyRows + r], row[static_cast<size_t>(k)]);
        }
      }
      const int64_t run_bytes = kValueRows * RowBytes(type, kRank);
      EXPECT_EQ(std::memcmp(up.value.data + head * run_bytes,
                            fused.bytes.data() + (first + kKeyRows) * RowBytes(type, kRank),
                            static_cast<size_t>(run_bytes)),
                0);
    }
  }
}

}  // namespace
}  // namespace remontoir
