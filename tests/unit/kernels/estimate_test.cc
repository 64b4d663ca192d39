// Facts about the estimate of sparse attention: how statistics and queries are packed, what comes
// of them, and that all tables have its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/kernel_table.h"
#include "tensor/sealed_layout.h"
#include "tests/support/bits.h"
#include "tests/support/halves.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

constexpr double kLn2 = std::numbers::ln2;

struct EstimateCase {
  int rows;
  int panels;
  int width;
};
constexpr EstimateCase kEstimateCases[] = {{1, 1, 64},  {2, 5, 64},  {3, 8, 20},
                                           {4, 6, 64},  {5, 3, 80},  {8, 8, 64},
                                           {9, 7, 128}, {16, 4, 64}, {24, 5, 64}};

struct Estimates {
  std::vector<float> weights, growths, max;
};

struct EstimateData {
  std::vector<float> queries;
  std::vector<std::vector<float>> columns;  // by panel, [16][3][stride]
  std::vector<std::vector<std::byte>> statistics;

  explicit EstimateData(const EstimateCase& c)
      : queries(Normals(static_cast<size_t>(c.rows * c.width), 5)) {
    const auto stride = static_cast<size_t>((c.width + 15) / 16 * 16);
    for (int p = 0; p < c.panels; ++p) {
      std::vector<float> values = Normals(48 * stride, 10 + static_cast<uint64_t>(p));
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t statistic = i / stride % 3;
        if (statistic >= 1) values[i] *= 0.3F;
        if (statistic == 2) values[i] = std::fabs(values[i]);
        if (i % stride >= static_cast<size_t>(c.width)) values[i] = 0;
      }
      columns.push_back(values);
      statistics.push_back(Pack(ScalarKernels(), values, c.width));
    }
  }

  static std::vector<std::byte> Pack(const KernelTable& table, const std::vector<float>& columns,
                                     int width) {
    std::vector<std::byte> out(static_cast<size_t>(StatisticsPanelBytes(width)), std::byte{0xff});
    table.pack_statistics({columns.data(), (width + 15) / 16 * 16, width, out.data()});
    return out;
  }
};

float FloatAt(const std::vector<std::byte>& bytes, int64_t offset) {
  float value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TEST(SparseKernels, StatisticsArePackedWithinHalfAStepOfTheBlocksLargest) {
  for (const EstimateCase& c : kEstimateCases) {
    const EstimateData data(c);
    const auto stride = static_cast<size_t>((c.width + 15) / 16 * 16);
    for (const KernelTable* table : RunnableTables()) {
      const auto& columns = data.columns[0];
      const std::vector<std::byte> packed = EstimateData::Pack(*table, columns, c.width);
      EXPECT_EQ(packed, data.statistics[0]) << table->name << " " << c.width;
      for (int b = 0; b < kPanelBlocks; ++b) {
        const float* block = columns.data() + static_cast<size_t>(b) * 3 * stride;
        for (const int statistic : {1, 2}) {
          const float* values = block + static_cast<size_t>(statistic) * stride;
          const float largest =
              std::fabs(*std::max_element(values, values + c.width, [](float x, float y) {
                return std::fabs(x) < std::fabs(y);
              }));
          const int levels = statistic == 1 ? kAxisByteMax : kRestByteMax;
          const float scale =
              FloatAt(packed, StatisticsScalesOffset(c.width) + 4 * (16 * (statistic - 1) + b));
          EXPECT_NEAR(scale, largest / static_cast<float>(levels), 1e-6 * largest);
          const int64_t first =
              statistic == 1 ? StatisticsAxisOffset(c.width) : StatisticsRestOffset(c.width);
          for (int d = 0; d < c.width; ++d) {
            const auto byte =
                static_cast<int>(packed[static_cast<size_t>(first + d / 4 * 64 + 4 * b + d % 4)]);
            const int zero = statistic == 1 ? kAxisByteZero : 0;
            EXPECT_NEAR(static_cast<float>(byte - zero) * scale, values[d], 0.501 * scale);
          }
        }
        for (int d = 0; d < c.width; ++d) {
          EXPECT_NEAR(HalfAt(packed, static_cast<size_t>(16 * d + b)), block[d], 2e-3);
        }
      }
    }
  }
}

TEST(SparseKernels, StatisticsThatFloat16CantHoldHaveNoScale) {
  for (const float bad : {NAN, INFINITY, -7e4F, 7e4F}) {
    for (const int statistic : {1, 2}) {
      std::vector<float> columns = EstimateData({1, 1, 64}).columns[0];
      columns[static_cast<size_t>(5 * 3 + statistic) * 64 + 9] = bad;
      std::vector<std::byte> want;
      for (const KernelTable* table : RunnableTables()) {
        const std::vector<std::byte> packed = EstimateData::Pack(*table, columns, 64);
        for (int i = 0; i < 32; ++i) {
          const float scale = FloatAt(packed, StatisticsScalesOffset(64) + 4 * i);
          EXPECT_EQ(std::isnan(scale), i == 16 * (statistic - 1) + 5) << bad << " " << i;
        }
        if (want.empty()) want = packed;
        EXPECT_EQ(packed, want) << table->name;
      }
    }
  }
}

struct ScaledQuery {
  std::vector<float> scaled;
  std::vector<int8_t> bytes;
  QueryBytes of;
};

ScaledQuery Scale(const KernelTable& table, const float* query, int width, float factor) {
  ScaledQuery out{std::vector<float>(static_cast<size_t>(width)),
                  std::vector<int8_t>(static_cast<size_t>(2 * QueryByteStride(width)), -3),
                  {}};
  table.scale_query({query, width, factor, out.scaled.data(), out.bytes.data(), &out.of});
  return out;
}

TEST(SparseKernels, AQueryIsScaledAndHasBytesOfItAndOfItsSquares) {
  for (const int width : {64, 20, 45, 128}) {
    const std::vector<float> query = Normals(static_cast<size_t>(width), 8);
    for (const KernelTable* table : RunnableTables()) {
      const ScaledQuery got = Scale(*table, query.data(), width, 0.18F);
      const auto stride = static_cast<size_t>(QueryByteStride(width));
      int sum = 0;
      for (size_t d = 0; d < stride; ++d) {
        const float x = d < query.size() ? 0.18F * query[d] : 0;
        if (d < query.size()) {
          EXPECT_EQ(got.scaled[d], x);
        }
        EXPECT_NEAR(got.bytes[d] * got.of.scale, x, 0.501 * got.of.scale) << table->name;
        EXPECT_NEAR(got.bytes[stride + d] * got.of.square_scale, x * x,
                    0.501 * got.of.square_scale);
        sum += got.bytes[d];
      }
      EXPECT_EQ(got.of.zero, kAxisByteZero * sum);
      EXPECT_EQ(
          *std::max_element(got.bytes.begin() + static_cast<int64_t>(stride), got.bytes.end()),
          127);
    }
  }
  for (const KernelTable* table : RunnableTables()) {
    std::vector<float> query(64, 0.0F);
    EXPECT_EQ(Scale(*table, query.data(), 64, 1).of.scale, 0) << table->name;
    query[3] = NAN;
    EXPECT_TRUE(std::isnan(Scale(*table, query.data(), 64, 1).of.scale)) << table->name;
    query[3] = INFINITY;
    EXPECT_TRUE(std::isnan(Scale(*table, query.data(), 64, 1).of.square_scale)) << table->name;
  }
}

Estimates Estimate(const KernelTable& table, const EstimateCase& c, const EstimateData& data) {
  std::vector<const std::byte*> panels;
  for (const auto& panel : data.statistics) panels.push_back(panel.data());
  const int64_t stride = c.panels * kPanelBlocks;
  Estimates out{std::vector<float>(static_cast<size_t>(c.rows * stride)),
                std::vector<float>(static_cast<size_t>(c.rows * stride)),
                std::vector<float>(static_cast<size_t>(c.rows))};
  std::vector<int8_t> bytes;
  std::vector<QueryBytes> scales;
  for (int r = 0; r < c.rows; ++r) {
    const ScaledQuery row = Scale(table, data.queries.data() + r * c.width, c.width, 1);
    bytes.insert(bytes.end(), row.bytes.begin(), row.bytes.end());
    scales.push_back(row.of);
  }
  table.estimate_blocks({data.queries.data(), bytes.data(), scales.data(), c.rows, panels.data(),
                         c.panels, c.width, 4, out.weights.data(), out.growths.data(), stride,
                         out.max.data()});
  return out;
}

TEST(SparseKernels, AnEstimateIsTheBlocksFirstTwoMoments) {
  for (const EstimateCase& c : kEstimateCases) {
    const EstimateData data(c);
    const auto stride = static_cast<size_t>((c.width + 15) / 16 * 16);
    for (const KernelTable* table : RunnableTables()) {
      const Estimates got = Estimate(*table, c, data);
      for (int r = 0; r < c.rows; ++r) {
        const float* query = data.queries.data() + r * c.width;
        double length = 0;
        for (int d = 0; d < c.width; ++d) length += std::pow(query[d], 2);
        double largest = -1e30;
        for (int block = 0; block < c.panels * kPanelBlocks; ++block) {
          const auto& panel = data.statistics[static_cast<size_t>(block / kPanelBlocks)];
          const float* columns = data.columns[static_cast<size_t>(block / kPanelBlocks)].data() +
                                 static_cast<size_t>(block % kPanelBlocks) * 3 * stride;
          double score = 0;
          double along = 0;
          double rest = 0;
          for (int d = 0; d < c.width; ++d) {
            const double q = query[d];
            score +=
                q * HalfAt(panel, static_cast<size_t>(d * kPanelBlocks + block % kPanelBlocks));
            along += q * columns[stride + static_cast<size_t>(d)];
            rest += q * q * columns[2 * stride + static_cast<size_t>(d)];
          }
          // Bytes of seven bits: what they round off adds up like noise.
          const double noise = 0.02 * std::sqrt(length);
          const double growth = kLn2 / 2 * (along * along + rest);
          const auto index = static_cast<size_t>(r * c.panels * kPanelBlocks + block);
          EXPECT_NEAR(got.growths[index], growth,
                      kLn2 / 2 * (2 * noise * std::fabs(along) + noise * noise + 0.03 * rest));
          EXPECT_NEAR(got.weights[index], 4 + score + std::min(got.growths[index], 1.5F), 1e-4);
          largest = std::max(largest, static_cast<double>(got.weights[index]));
        }
        EXPECT_EQ(got.max[static_cast<size_t>(r)], largest);
      }
    }
  }
}

TEST(SparseKernels, EstimatesHaveTheSameBitsInEveryTableAndBesideAnyRows) {
  for (const EstimateCase& c : kEstimateCases) {
    const EstimateData data(c);
    const Estimates want = Estimate(ScalarKernels(), c, data);
    for (const KernelTable* table : RunnableTables()) {
      const Estimates got = Estimate(*table, c, data);
      EXPECT_EQ(BitsOf(got.weights), BitsOf(want.weights)) << table->name << c.rows;
      EXPECT_EQ(BitsOf(got.growths), BitsOf(want.growths)) << table->name << c.rows;
      EXPECT_EQ(BitsOf(got.max), BitsOf(want.max)) << table->name << c.rows;
      // The first row alone.
      const Estimates alone = Estimate(*table, {1, c.panels, c.width}, data);
      EXPECT_TRUE(std::equal(alone.weights.begin(), alone.weights.end(), want.weights.begin()));
      EXPECT_TRUE(std::equal(alone.growths.begin(), alone.growths.end(), want.growths.begin()));
    }
  }
}

}  // namespace
}  // namespace remontoir
