// Facts about q8_0 keys and values on their way into a page: how far they move, and what becomes of
// blocks that eight bits can't say.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

constexpr int kWidth = 80;  // two whole blocks and a short one
constexpr int kSlot = 37;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Reads a value back from where the kernels find it.
class StoredRow {
 public:
  StoredRow(const KernelTable& table, const std::vector<float>& row, bool key)
      : key_(key), part_(static_cast<size_t>(KvPartBytes(DType::kQ8_0, kWidth)), std::byte{0xff}) {
    (key ? table.store_key : table.store_value)(row.data(), kWidth, DType::kQ8_0, kSlot,
                                                part_.data());
  }

  float scale(int d) const {
    uint16_t bits;
    const int64_t index = int64_t{d / kKvScaleBlock} * kKvPageTokens + kSlot;
    std::memcpy(&bits, part_.data() + KvScalesOffset(kWidth) + 2 * index, 2);
    return HalfToFloat(bits);
  }
  int quant(int d) const {
    const int index =
        key_ ? (kSlot / kKvPanelKeys * kWidth + d) * kKvPanelKeys + kSlot % kKvPanelKeys
             : kSlot * kWidth + d;
    return static_cast<int8_t>(part_[static_cast<size_t>(index)]);
  }
  float value(int d) const { return scale(d) * static_cast<float>(quant(d)); }

 private:
  bool key_;
  std::vector<std::byte> part_;
};

// Of every table, as a key and as a value.
template <class Expectation>
void ForEachStored(const std::vector<float>& row, const Expectation& expect) {
  for (const KernelTable* table : RunnableTables()) {
    for (const bool key : {true, false}) {
      SCOPED_TRACE(std::string(table->name) + (key ? ", key" : ", value"));
      expect(StoredRow(*table, row, key));
    }
  }
}

TEST(StoredInQ8, AValueMovesByHalfAStepAtMost) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto row = Normals(kWidth, seed);
    for (float& x : row) x *= std::exp2(static_cast<float>(seed % 20) - 8);
    ForEachStored(row, [&](const StoredRow& stored) {
      for (int d = 0; d < kWidth; ++d) {
        const float x = row[static_cast<size_t>(d)];
        // Rounding the scale down moves the largest value past 127 steps, by 127 / 2048 at most.
        ASSERT_NEAR(stored.value(d), x, 0.5001F * stored.scale(d)) << "value " << d;
      }
    });
  }
}

TEST(StoredInQ8, TheLargestOfABlockIs127StepsAndZeroIsNone) {
  auto row = Normals(kWidth, 1);
  row[5] = -1000;
  row[79] = 50;
  row[6] = row[78] = 0;
  ForEachStored(row, [](const StoredRow& stored) {
    EXPECT_EQ(stored.quant(5), -127);
    EXPECT_EQ(stored.quant(79), 127);
    EXPECT_EQ(stored.quant(6), 0);
    EXPECT_EQ(stored.quant(78), 0);
  });
}

struct Unsayable {
  const char* name;
  float value;
  bool is_nan;  // else zeros
};

constexpr Unsayable kUnsayable[] = {
    {"NaN", std::numeric_limits<float>::quiet_NaN(), true},
    {"infinity", -kInfinity, true},
    {"more than float16 has a scale for", 127.0F * 65536, true},
    {"less than float16 has a scale for", 127.0F * 0x1p-26F, false},
    {"zero", 0, false},
};

TEST(StoredInQ8, ABlockThatCantBeSaidIsNanOrZerosAndSpoilsNoOther) {
  for (const Unsayable& c : kUnsayable) {
    SCOPED_TRACE(c.name);
    std::vector<float> row(kWidth, 1.0F);
    std::fill(row.begin() + 32, row.begin() + 64, 0.0F);
    row[40] = c.value;
    ForEachStored(row, [&](const StoredRow& stored) {
      for (int d = 0; d < kWidth; ++d) {
        const bool bad = d / kKvScaleBlock == 1;
        ASSERT_EQ(std::isnan(stored.scale(d)), bad && c.is_nan) << "value " << d;
        ASSERT_EQ(stored.quant(d), bad ? 0 : 127) << "value " << d;
      }
    });
  }
}

// Scales near the smallest of float16 are so coarse that a value may be more than 127 of them.
TEST(StoredInQ8, TheSmallestScaleStopsAt127Steps) {
  std::vector<float> row(kWidth, 0.0F);
  row[0] = 1.4F * 127 * 0x1p-24F;
  row[1] = -row[0];
  ForEachStored(row, [](const StoredRow& stored) {
    EXPECT_EQ(stored.scale(0), 0x1p-24F);
    EXPECT_EQ(stored.quant(0), 127);
    EXPECT_EQ(stored.quant(1), -127);
  });
}

}  // namespace
}  // namespace remontoir
