// Facts about copies between KV pages: the tokens asked for, whole, and nothing outside the page.
#include "backend/kv_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace remontoir {
namespace {

constexpr size_t kMargin = 64;

// What attention reads of one token: its key and value in every layer and head, scales included,
// element by element as KvLayout's comment places them.
std::vector<std::byte> TokenBytes(const KvLayout& layout, const std::byte* page, int32_t token) {
  std::vector<std::byte> bytes;
  const auto take = [&](int64_t offset, int64_t size) {
    bytes.insert(bytes.end(), page + offset, page + offset + size);
  };
  for (int layer = 0; layer < layout.layer_count(); ++layer) {
    const KvLayerShape& shape = layout.layer(layer);
    const bool quantised = shape.type == DType::kQ8_0;
    const int64_t size = quantised ? 1 : RowBytes(shape.type, 1);
    const auto take_scales = [&](int64_t part, int32_t width) {
      for (int32_t block = 0; quantised && block * 32 < width; ++block) {
        take(part + 64 * width + 2 * (64 * block + token), 2);
      }
    };
    for (int head = 0; head < shape.kv_heads; ++head) {
      const int64_t keys = layout.key_offset(layer, head);
      for (int32_t d = 0; d < shape.key_width; ++d) {
        take(keys + size * ((token / 16 * shape.key_width + d) * 16 + token % 16), size);
      }
      take_scales(keys, shape.key_width);
      const int64_t values = layout.value_offset(layer, head);
      take(values + size * token * shape.value_width, size * shape.value_width);
      take_scales(values, shape.value_width);
    }
  }
  return bytes;
}

TEST(CopyKvLayerTokens, CopiesEveryBitOfTheTokensAndNothingOutsideThePage) {
  std::mt19937 random(3);
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kQ8_0}) {
    // Widths with a short last block of scales, and layers of two shapes.
    const KvLayout layout({{2, 48, 80, type, 0}, {1, 64, 5, type, 100}});
    const auto page_bytes = static_cast<size_t>(layout.page_bytes());
    std::vector<std::byte> from(page_bytes);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    for (int32_t tokens = 0; tokens <= kKvPageTokens; ++tokens) {
      std::vector<std::byte> to(page_bytes + 2 * kMargin);
      for (std::byte& byte : to) byte = static_cast<std::byte>(random());
      const std::vector<std::byte> before = to;
      std::byte* page = to.data() + kMargin;
      for (int layer = 0; layer < layout.layer_count(); ++layer) {
        CopyKvLayerTokens(layout, layer, from.data(), page, tokens);
      }
      for (int32_t token = 0; token < tokens; ++token) {
        ASSERT_EQ(TokenBytes(layout, page, token), TokenBytes(layout, from.data(), token))
            << Info(type).name << ", token " << token << " of " << tokens;
      }
      // Values of later tokens are another's: they stay.
      const int64_t values = layout.value_offset(0, 0);
      const int64_t row = type == DType::kQ8_0 ? 80 : RowBytes(type, 80);
      ASSERT_EQ(
          std::memcmp(page + values + tokens * row, before.data() + kMargin + values + tokens * row,
                      static_cast<size_t>((kKvPageTokens - tokens) * row)),
          0);
      ASSERT_EQ(std::memcmp(to.data(), before.data(), kMargin), 0);
      ASSERT_EQ(std::memcmp(page + page_bytes, before.data() + kMargin + page_bytes, kMargin), 0);
    }
  }
}

TEST(CopyKvLayerTokens, LeavesOtherLayersAlone) {
  const KvLayout layout({{1, 16, 16, DType::kF16, 0}, {1, 16, 16, DType::kF16, 0}});
  const auto page_bytes = static_cast<size_t>(layout.page_bytes());
  const std::vector<std::byte> from(page_bytes, std::byte{1});
  std::vector<std::byte> to(page_bytes, std::byte{2});
  CopyKvLayerTokens(layout, 1, from.data(), to.data(), kKvPageTokens);
  EXPECT_EQ(to[0], std::byte{2});
  EXPECT_EQ(to[static_cast<size_t>(layout.key_offset(1, 0)) - 1], std::byte{2});
  EXPECT_EQ(to[static_cast<size_t>(layout.key_offset(1, 0))], std::byte{1});
}

TEST(CopyKvLayerTokensDeathTest, MoreTokensThanAPageHoldsAreABug) {
  const KvLayout layout({{1, 16, 16, DType::kF16, 0}});
  std::vector<std::byte> page(static_cast<size_t>(layout.page_bytes()));
  EXPECT_DEATH(CopyKvLayerTokens(layout, 0, page.data(), page.data(), 65), "tokens of a page");
}

}  // namespace
}  // namespace remontoir
