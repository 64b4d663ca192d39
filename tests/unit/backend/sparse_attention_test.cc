// Facts about sealing and sparse attention: what stays exact, what doesn't matter, and how far off
// the rest may be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/seal_segment.h"
#include "backend/sparse_attention.h"
#include "tests/support/bits.h"
#include "tests/support/kernel_tables.h"
#include "tests/support/sparse_head.h"

namespace remontoir {
namespace {

using Vectors = std::vector<std::vector<float>>;

SparseHead::RowOf Clustered(int width, uint64_t seed) {
  return [=](int key) { return ClusteredRow(width, key, seed); };
}

// Queries that look at some cluster more or less.
Vectors Queries(int width, int count, float sharpness = 1) {
  Vectors queries;
  for (int r = 0; r < count; ++r) {
    std::vector<float> query = ClusteredRow(width, 5000 + r, 1);
    for (float& x : query) x *= sharpness;
    queries.push_back(query);
  }
  return queries;
}

std::vector<int> Positions(int first, int count) {
  std::vector<int> positions;
  for (int r = 0; r < count; ++r) positions.push_back(first + r);
  return positions;
}

double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

constexpr int kFirstPosition = 4288;  // four segments are far from here on

TEST(SealedLayout, FarSegmentsEndLocalKeysBeforeTheGroup) {
  EXPECT_EQ(FarSegments(0), 0);
  EXPECT_EQ(FarSegments(1215), 0);
  EXPECT_EQ(FarSegments(1216), 1);
  EXPECT_EQ(FarSegments(1223), 1);
  EXPECT_EQ(FarSegments(kFirstPosition - 1), 3);
  EXPECT_EQ(FarSegments(kFirstPosition), 4);
  EXPECT_EQ(FarSegments(32767), 31);
  EXPECT_EQ(SegmentEnd(0), 1088);
}

TEST(SealSegment, MovesEveryKeyWithItsValueAndKeepsItsBits) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    SparseHead head(BestKernels(), {.kv_type = type}, 1300, Clustered(64, 1), Clustered(64, 2));
    head.Seal();
    const SealedOffsets offsets = OffsetsOf(head.shape());
    const std::byte* segment = head.segments()[0].data();
    std::vector<uint16_t> order(kSegmentKeys);
    std::memcpy(order.data(), segment + offsets.order, order.size() * 2);
    EXPECT_EQ(std::set<uint16_t>(order.begin(), order.end()).size(), size_t{kSegmentKeys});
    std::vector<float> keys(64 * 64);
    std::vector<float> values(64 * 64);
    for (int page = 0; page < 16; ++page) {
      const int64_t at = page * 64 * RowBytes(head.shape().type, 64);
      BestKernels().load_keys(segment + offsets.keys + at, 64, head.shape().type, 64, keys.data());
      BestKernels().load_values(segment + offsets.values + at, 64, head.shape().type, 64,
                                values.data());
      for (int i = 0; i < 64; ++i) {
        const int key = kAnchorKeys + order[static_cast<size_t>(page * 64 + i)];
        const auto expect = [&](const std::vector<float>& got, uint64_t seed) {
          std::vector<float> want = AsStored(ClusteredRow(64, key, seed), type);
          want = AsStored(want, head.shape().type);
          EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin() + i * 64)) << key;
        };
        expect(keys, 1);
        expect(values, 2);
      }
    }
  }
}

TEST(SealSegment, BringsSimilarKeysTogether) {
  SparseHead head(BestKernels(), {}, 1300, Clustered(64, 1), Clustered(64, 2));
  head.Seal();
  const SealedOffsets offsets = OffsetsOf(head.shape());
  std::vector<uint16_t> order(kSegmentKeys);
  std::memcpy(order.data(), head.segments()[0].data() + offsets.order, order.size() * 2);
  // The mean square of a key's distance from the mean of its sixteen: in order of position, and
  // sealed.
  const auto spread = [](const std::vector<uint16_t>& keys) {
    double sum = 0;
    for (size_t block = 0; block < keys.size(); block += 16) {
      Vectors rows;
      for (size_t i = block; i < block + 16; ++i) {
        rows.push_back(ClusteredRow(64, kAnchorKeys + keys[i], 1));
      }
      for (size_t d = 0; d < 64; ++d) {
        double mean = 0;
        for (const auto& row : rows) mean += row[d] / 16;
        for (const auto& row : rows) sum += std::pow(row[d] - mean, 2);
      }
    }
    return sum;
  };
  std::vector<uint16_t> positions(kSegmentKeys);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<uint16_t>(i);
  EXPECT_LT(spread(order), 0.4 * spread(positions));
}

TEST(SealSegment, TakesTheMomentsOfEachBlock) {
  for (const int block_keys : {1, 16, 32, 64}) {
    SparseHead head(BestKernels(), {.block_keys = block_keys}, 1300, Clustered(64, 1),
                    Clustered(64, 2));
    head.Seal();
    const SealedOffsets offsets = OffsetsOf(head.shape());
    const std::byte* segment = head.segments()[0].data();
    const auto half = [segment](int64_t offset) {
      uint16_t bits;
      std::memcpy(&bits, segment + offset, 2);
      return HalfToFloat(bits);
    };
    const auto byte = [&](int64_t offset, int block, int d, int zero, int first_scale) {
      const std::byte* panel = segment + offsets.statistics + block / 16 * StatisticsPanelBytes(64);
      float scale;
      std::memcpy(&scale, panel + StatisticsScalesOffset(64) + 4 * (first_scale + block % 16), 4);
      return scale * (static_cast<int>(panel[offset + d / 4 * 64 + block % 16 * 4 + d % 4]) - zero);
    };
    for (int block = 0; block < head.shape().blocks(); block += 5) {
      std::vector<double> key_mean(64);
      std::vector<double> value_mean(64);
      std::vector<double> variance(64);
      const auto for_each_key = [&](const auto& body) {
        for (int i = block * block_keys; i < (block + 1) * block_keys; ++i) {
          uint16_t key;
          std::memcpy(&key, segment + offsets.order + 2 * i, 2);
          body(AsStored(ClusteredRow(64, kAnchorKeys + key, 1), DType::kF16),
               AsStored(ClusteredRow(64, kAnchorKeys + key, 2), DType::kF16));
        }
      };
      for_each_key([&](const auto& key, const auto& value) {
        for (size_t d = 0; d < 64; ++d) {
          key_mean[d] += key[d] / block_keys;
          value_mean[d] += value[d] / block_keys;
        }
      });
      for_each_key([&](const auto& key, const auto&) {
        for (size_t d = 0; d < 64; ++d)
          variance[d] += std::pow(key[d] - key_mean[d], 2) / block_keys;
      });
      for (int d = 0; d < 64; ++d) {
        const auto column = static_cast<size_t>(d);
        const int64_t panel =
            offsets.statistics + block / 16 * StatisticsPanelBytes(64) + 2 * (d * 16 + block % 16);
        EXPECT_NEAR(half(panel), key_mean[column], 4e-3);
        const double axis = byte(StatisticsAxisOffset(64), block, d, kAxisByteZero, 0);
        // The axis isn't quite an eigenvector, so that it may explain more than there is; and both
        // are rounded to bytes.
        const double moment = axis * axis + byte(StatisticsRestOffset(64), block, d, 0, 16);
        EXPECT_GT(moment, variance[column] - 0.03 * (1 + variance[column]));
        EXPECT_LT(moment, 1.08 * variance[column] + 0.08);
        EXPECT_NEAR(half(offsets.means + 2 * (block * 64 + d)), value_mean[column], 4e-3);
      }
    }
  }
}

TEST(SealSegment, HasTheSameBitsInEveryTable) {
  for (const HeadShape shape : {HeadShape{}, HeadShape{.key_width = 40, .value_width = 72},
                                HeadShape{.kv_type = DType::kQ8_0, .block_keys = 32}}) {
    std::vector<std::vector<std::byte>> want;
    for (const KernelTable* table : RunnableTables()) {
      SparseHead head(*table, shape, 1300, Clustered(shape.key_width, 1),
                      Clustered(shape.value_width, 2));
      head.Seal();
      if (want.empty()) want = head.segments();
      EXPECT_TRUE(head.segments() == want) << table->name;
    }
  }
}

TEST(SealSegment, SurvivesKeysThatAreNoNumbers) {
  SparseHead head(
      BestKernels(), {.kv_type = DType::kF32}, 1300,
      [](int key) { return key % 3 == 0 ? std::vector<float>(64, NAN) : ClusteredRow(64, key, 1); },
      Clustered(64, 2));
  head.Seal();
  std::vector<uint16_t> order(kSegmentKeys);
  std::memcpy(order.data(), head.segments()[0].data() + OffsetsOf(head.shape()).order,
              order.size() * 2);
  EXPECT_EQ(std::set<uint16_t>(order.begin(), order.end()).size(), size_t{kSegmentKeys});
}

// --- Attention ---

TEST(SparseAttention, IsCloseToExactAndCloserTheSmallerEpsilon) {
  for (const int block_keys : {16, 32}) {
    SparseHead head(BestKernels(), {.block_keys = block_keys}, kFirstPosition + 8, Clustered(64, 1),
                    Clustered(64, 2));
    head.Seal();
    const Vectors queries = Queries(64, 8, 0.7F);
    const std::vector<int> positions = Positions(kFirstPosition, 8);
    const std::vector<float> exact = head.AttendExactly(queries, positions);
    double last = 1;
    for (const float epsilon : {0.4F, 0.1F, 0.01F}) {
      const SparseHead::Result got = head.Attend({.epsilon = epsilon}, queries, positions);
      const double error = RelativeError(got.out, exact);
      EXPECT_LT(error, 0.1 + 0.5 * epsilon) << block_keys;
      EXPECT_LE(error, 1.001 * last);
      last = error;
      EXPECT_EQ(got.counts.far_blocks, 4 * 1024 / block_keys);
      EXPECT_GE(got.counts.chosen_blocks, 8);
      for (const float residual : got.residuals) EXPECT_LE(residual, epsilon);
    }
  }
}

TEST(SparseAttention, WithBlocksOfOneKeyItIsExactForEveryEpsilon) {
  for (const KernelTable* table : RunnableTables()) {
    SparseHead head(*table, {.block_keys = 1}, kFirstPosition + 8, Clustered(64, 1),
                    Clustered(64, 2));
    head.Seal();
    const Vectors queries = Queries(64, 8);
    const std::vector<int> positions = Positions(kFirstPosition, 8);
    const std::vector<float> exact = head.AttendExactly(queries, positions);
    for (const float epsilon : {1e-6F, 0.1F, 0.9F}) {
      const SparseHead::Result got =
          head.Attend({.epsilon = epsilon, .chosen_blocks_min = 0}, queries, positions);
      EXPECT_LT(RelativeError(got.out, exact), 5e-6) << table->name;
      EXPECT_EQ(got.counts.chosen_blocks, 0);
    }
  }
}

TEST(SparseAttention, BlocksOfEqualKeysAndValuesAreExact) {
  // Sixteen of each key, far apart from each other in the text.
  const auto equal_runs = [](uint64_t seed) {
    return [=](int key) { return ClusteredRow(64, (key - kAnchorKeys) % 64, seed); };
  };
  SparseHead head(BestKernels(), {}, kFirstPosition + 8, equal_runs(1), equal_runs(2));
  head.Seal();
  const Vectors queries = Queries(64, 8);
  const std::vector<int> positions = Positions(kFirstPosition, 8);
  const SparseHead::Result got =
      head.Attend({.epsilon = 0.5F, .chosen_blocks_min = 0}, queries, positions);
  EXPECT_LT(RelativeError(got.out, head.AttendExactly(queries, positions)), 5e-6);
  EXPECT_LT(got.counts.chosen_blocks, 8);
}

TEST(SparseAttention, AWholeChoiceIsExact) {
  SparseHead head(BestKernels(), {}, kFirstPosition + 8, Clustered(64, 1), Clustered(64, 2));
  head.Seal();
  const Vectors queries = Queries(64, 8);
  const std::vector<int> positions = Positions(kFirstPosition, 8);
  const std::vector<float> exact = head.AttendExactly(queries, positions);
  // An epsilon that nothing but all of it can keep, and a residual that is never small enough.
  for (const SparseSettings settings :
       {SparseSettings{.epsilon = 1e-9F}, SparseSettings{.epsilon = 0.3F, .residual_max = 0}}) {
    const SparseHead::Result got = head.Attend(settings, queries, positions);
    EXPECT_EQ(got.counts.chosen_blocks, got.counts.far_blocks);
    EXPECT_LT(RelativeError(got.out, exact), 5e-6);
    EXPECT_EQ(got.residuals, std::vector<float>(8, 0.0F));
  }
}

TEST(SparseAttention, TheOrderOfFarKeysChangesNothingBeyondRounding) {
  // Keys of a segment in another order: the same clusters, so the same estimate and choice.
  const auto turned = [](uint64_t seed) {
    return [=](int key) {
      const int segment = (key - kAnchorKeys) / kSegmentKeys;
      if (key < kAnchorKeys || segment >= 4) return ClusteredRow(64, key, seed);
      const int place = (key - kAnchorKeys) % kSegmentKeys;
      return ClusteredRow(
          64, kAnchorKeys + segment * kSegmentKeys + (place * 5 + 77) % kSegmentKeys, seed);
    };
  };
  SparseHead head(BestKernels(), {}, kFirstPosition + 8, Clustered(64, 1), Clustered(64, 2));
  SparseHead other(BestKernels(), {}, kFirstPosition + 8, turned(1), turned(2));
  head.Seal();
  other.Seal();
  const Vectors queries = Queries(64, 8);
  const std::vector<int> positions = Positions(kFirstPosition, 8);
  const SparseHead::Result want = head.Attend({}, queries, positions);
  const SparseHead::Result got = other.Attend({}, queries, positions);
  EXPECT_LT(RelativeError(got.out, want.out), 2e-4);
}

TEST(SparseAttention, HasTheSameBitsInEveryTable) {
  for (const HeadShape shape :
       {HeadShape{}, HeadShape{.block_keys = 32}, HeadShape{.kv_type = DType::kQ8_0},
        HeadShape{.key_width = 40, .value_width = 72, .kv_type = DType::kBF16}}) {
    std::vector<std::vector<uint32_t>> want;
    for (const KernelTable* table : RunnableTables()) {
      SparseHead head(*table, shape, kFirstPosition + 8, Clustered(shape.key_width, 1),
                      Clustered(shape.value_width, 2));
      head.Seal();
      std::vector<std::vector<uint32_t>> bits;
      for (const int rows : {1, 3, 8, 24}) {
        std::vector<int> positions;
        for (int r = 0; r < rows; ++r) positions.push_back(kFirstPosition + 8 * r / rows);
        const SparseHead::Result got =
            head.Attend({}, Queries(shape.key_width, rows, 0.8F), positions);
        std::vector<float> all = got.out;
        all.insert(all.end(), got.residuals.begin(), got.residuals.end());
        bits.push_back(BitsOf(all));
      }
      if (want.empty()) want = bits;
      EXPECT_TRUE(bits == want) << table->name;
    }
  }
}

TEST(SparseAttention, KeysThatAreNoNumbersMakeRowsThatAreNone) {
  const auto bad = [](int key) {
    std::vector<float> row = ClusteredRow(64, key, 1);
    if (key == 700) row[5] = NAN;
    return row;
  };
  SparseHead head(BestKernels(), {.kv_type = DType::kF32}, kFirstPosition + 8, bad,
                  Clustered(64, 2));
  head.Seal();
  const SparseHead::Result got = head.Attend({}, Queries(64, 8), Positions(kFirstPosition, 8));
  EXPECT_TRUE(std::isnan(got.out[0]));
}

TEST(SparseAttention, KeysThatFloat16CantHoldAreReadExactly) {
  const auto large = [](int key) {
    std::vector<float> row = ClusteredRow(64, key, 1);
    if (key % 500 == 3) row[9] = 1e6F;
    return row;
  };
  Vectors queries = Queries(64, 8);
  for (auto& query : queries) query[9] = 0;
  SparseHead head(BestKernels(), {.kv_type = DType::kF32}, kFirstPosition + 8, large,
                  Clustered(64, 2));
  head.Seal();
  const std::vector<int> positions = Positions(kFirstPosition, 8);
  const SparseHead::Result got = head.Attend({}, queries, positions);
  EXPECT_EQ(got.counts.chosen_blocks, got.counts.far_blocks);
  EXPECT_LT(RelativeError(got.out, head.AttendExactly(queries, positions)), 5e-6);
}

TEST(SparseAttention, WithoutFarSegmentsItIsTheExactKernel) {
  SparseHead head(BestKernels(), {}, 1000, Clustered(64, 1), Clustered(64, 2));
  head.Seal();
  const Vectors queries = Queries(64, 8);
  const SparseHead::Result got = head.Attend({}, queries, Positions(992, 8));
  EXPECT_EQ(BitsOf(got.out), BitsOf(head.AttendExactly(queries, Positions(992, 8))));
  EXPECT_EQ(got.counts.far_blocks, 0);
}

}  // namespace
}  // namespace remontoir
