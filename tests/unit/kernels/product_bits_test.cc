// A product's bits by seed: any rows, columns and cuts into tiles give what one row alone gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "tests/support/bits.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/panel_formats.h"

namespace remontoir {
namespace {

constexpr int kRowsMax = 70;

// Borders that cut 0 ... count into runs of random lengths.
std::vector<int64_t> Cuts(int64_t count, const CounterRandom& random, uint64_t* n) {
  std::vector<int64_t> cuts = {0};
  const auto length_max = 1 + random.Bits((*n)++) % static_cast<uint64_t>(count);
  while (cuts.back() < count) {
    const auto length = static_cast<int64_t>(1 + random.Bits((*n)++) % length_max);
    cuts.push_back(std::min(count, cuts.back() + length));
  }
  return cuts;
}

// A matrix and kRowsMax rows that it is multiplied with.
template <class Input>
struct Matrices {
  PackedLayout layout;
  std::vector<std::byte> packed;
  std::vector<Input> in;  // [kRowsMax][stride]
  int64_t stride = 0;

  PanelProduct<Input> Describe(const std::byte* panels, float* out) const {
    return {.panels = panels,
            .panel_bytes = layout.panel_bytes,
            .panel_count = static_cast<int>(layout.panel_count()),
            .columns = static_cast<int>(layout.out_width),
            .in_width = layout.in_width,
            .in = in.data(),
            .in_stride = stride,
            .row_index = nullptr,
            .rows = 1,
            .out = out,
            .out_stride = layout.out_width};
  }

  // [kRowsMax][out_width], one row at a time.
  std::vector<float> RowByRow(const std::byte* panels) const {
    std::vector<float> out(static_cast<size_t>(kRowsMax * layout.out_width));
    for (int64_t r = 0; r < kRowsMax; ++r) {
      auto product = Describe(panels, out.data() + r * layout.out_width);
      product.in += r * stride;
      RunProduct(ScalarKernels(), layout.format, product);
    }
    return out;
  }

  // Rows [0, rows) in tiles, each a call of its own.
  std::vector<float> InTiles(const KernelTable& table, const std::byte* panels,
                             const std::vector<int64_t>& row_cuts,
                             const std::vector<int64_t>& panel_cuts) const {
    std::vector<float> out(static_cast<size_t>(row_cuts.back() * layout.out_width));
    for (size_t p = 0; p + 1 < panel_cuts.size(); ++p) {
      for (size_t r = 0; r + 1 < row_cuts.size(); ++r) {
        const int64_t column = panel_cuts[p] * kPanelRows;
        auto tile = Describe(panels + panel_cuts[p] * layout.panel_bytes,
                             out.data() + row_cuts[r] * layout.out_width + column);
        tile.panel_count = static_cast<int>(panel_cuts[p + 1] - panel_cuts[p]);
        tile.columns =
            static_cast<int>(std::min(panel_cuts[p + 1] * kPanelRows, layout.out_width) - column);
        tile.in += row_cuts[r] * stride;
        tile.rows = static_cast<int>(row_cuts[r + 1] - row_cuts[r]);
        RunProduct(table, layout.format, tile);
      }
    }
    return out;
  }
};

class ProductBits : public testing::TestWithParam<DType> {
 protected:
  template <class Input>
  void ExpectRowsAlone(int64_t out_width, int64_t in_width, bool float32, uint64_t seed) {
    const DType type = GetParam();
    Matrices<Input> m;
    m.layout = PlanPacking(type, out_width, in_width, float32);
    m.packed = Packed(m.layout, type, RandomWeights(type, out_width * in_width, seed));
    const auto values = Normals(static_cast<size_t>(kRowsMax * in_width), seed + 1);
    if constexpr (std::is_same_v<Input, float>) {
      m.in = values;
    } else {
      m.in = QuantisedRows(values);
    }
    m.stride = std::ssize(m.in) / kRowsMax;
    GuardedArrays arrays(GuardSide::kAtBegin);  // aligned
    const std::byte* panels = arrays.In(m.packed);
    const auto expected = BitsOf(m.RowByRow(panels));
    const CounterRandom random(seed, 9);
    uint64_t n = 0;
    for (int rows = 1; rows <= kRowsMax; ++rows) {
      const auto row_cuts = Cuts(rows, random, &n);
      const auto panel_cuts = Cuts(m.layout.panel_count(), random, &n);
      for (const KernelTable* table : RunnableTables()) {
        const auto bits = BitsOf(m.InTiles(*table, panels, row_cuts, panel_cuts));
        ASSERT_TRUE(std::equal(bits.begin(), bits.end(), expected.begin()))
            << table->name << ", " << rows << " rows of " << out_width << "x" << in_width
            << ", cut " << testing::PrintToString(row_cuts) << " and "
            << testing::PrintToString(panel_cuts);
      }
    }
  }
};

TEST_P(ProductBits, AreThoseOfARowAloneWhateverTheRowsColumnsAndTiles) {
  const int64_t block = Info(GetParam()).block_elements;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const CounterRandom random(seed, static_cast<uint64_t>(GetParam()));
    const auto out_width = static_cast<int64_t>(1 + random.Bits(0) % 80);
    const auto blocks = static_cast<int64_t>(1 + random.Bits(1) % (block == 256 ? 2 : 5));
    const int64_t in_width = block == 1 ? 31 * blocks + 1 : block * blocks;
    const bool float32 = seed == 2;
    if (IsFloatFormat(PlanPacking(GetParam(), out_width, in_width, float32).format)) {
      ExpectRowsAlone<float>(out_width, in_width, float32, seed);
    } else {
      ExpectRowsAlone<ActivationBlock>(out_width, in_width, float32, seed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ProductBits, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return std::string(Info(type.param).name); });

}  // namespace
}  // namespace remontoir
