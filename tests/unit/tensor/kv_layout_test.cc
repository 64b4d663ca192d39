// Facts about KvLayout: parts of a page are aligned, disjoint and add up to the page.
#include "tensor/kv_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace remontoir {
namespace {

struct Case {
  const char* name;
  std::vector<KvLayerShape> layers;
  int64_t page_bytes;
};

std::vector<Case> Cases() {
  return {
      {"f16, three heads of 64", {{3, 64, 64, DType::kF16, 0}}, 3 * 2 * 64 * 64 * 2},
      {"f32", {{1, 64, 64, DType::kF32, 0}}, 2 * 64 * 64 * 4},
      {"value wider than key", {{2, 8, 24, DType::kBF16, 0}}, 2 * 64 * (8 + 24) * 2},
      {"q8_0: a float16 scale to 32 values",
       {{3, 64, 96, DType::kQ8_0, 0}},
       3 * 64 * (160 + 5 * 2)},
      {"q8_0: a short last block", {{2, 80, 5, DType::kQ8_0, 0}}, 2 * 64 * (85 + (3 + 1) * 2)},
      {"statistics round up to a cache line",
       {{2, 16, 16, DType::kF16, 1}},
       2 * (64 * 32 * 2 + 64)},
      {"layers of different shapes",
       {{1, 8, 8, DType::kF16, 0}, {2, 16, 4, DType::kF32, 65}},
       64 * 16 * 2 + 2 * (64 * 20 * 4 + 128)},
  };
}

TEST(KvLayout, PartsAreAlignedDisjointAndFillThePage) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const KvLayout layout(c.layers);
    ASSERT_EQ(layout.layer_count(), static_cast<int>(c.layers.size()));
    int64_t end = 0;
    for (int layer = 0; layer < layout.layer_count(); ++layer) {
      const KvLayerShape& shape = layout.layer(layer);
      for (int head = 0; head < shape.kv_heads; ++head) {
        EXPECT_EQ(layout.key_offset(layer, head) % 64, 0);
        EXPECT_EQ(layout.value_offset(layer, head) % 64, 0);
        EXPECT_GE(layout.key_offset(layer, head), end);
        EXPECT_GE(layout.value_offset(layer, head),
                  layout.key_offset(layer, head) + KvPartBytes(shape.type, shape.key_width));
        end = layout.value_offset(layer, head) + KvPartBytes(shape.type, shape.value_width) +
              shape.statistics_bytes;
      }
    }
    EXPECT_LE(end, layout.page_bytes());
    EXPECT_EQ(layout.page_bytes(), c.page_bytes);
    EXPECT_EQ(layout.token_bytes(), c.page_bytes / kKvPageTokens);
  }
}

TEST(KvLayoutDeathTest, ALayerWithoutHeadsIsABug) {
  EXPECT_DEATH(KvLayout({{0, 64, 64, DType::kF16, 0}}), "a KV layer has heads");
}

}  // namespace
}  // namespace remontoir
