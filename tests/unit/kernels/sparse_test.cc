// Facts about the kernels of sparse attention: what each computes, and that all tables have its
// bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/kernel_table.h"
#include "tensor/sealed_layout.h"
#include "tests/support/bits.h"
#include "tests/support/halves.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

constexpr double kLn2 = std::numbers::ln2;

// --- Principal axes ---

struct AxisResult {
  std::vector<float> mean, axis, projections, scaled, rest;
  float spread;
};

AxisResult AxisOf(const KernelTable& table, const std::vector<float>& rows, int64_t stride,
                  const std::vector<uint16_t>& order, int iterations) {
  const auto width = static_cast<size_t>(stride);
  AxisResult out{std::vector<float>(width),        std::vector<float>(width),
                 std::vector<float>(order.size()), std::vector<float>(width),
                 std::vector<float>(width),        0};
  const KeySet keys = {rows.data(), stride, order.data(), static_cast<int>(order.size())};
  PrincipalAxis axis = {out.mean.data(), out.axis.data(), out.projections.data()};
  table.principal_axis(keys, iterations, &axis);
  table.block_spread(keys, axis, out.scaled.data(), out.rest.data());
  out.spread = axis.spread;
  return out;
}

TEST(SparseKernels, APrincipalAxisIsTheDirectionInWhichKeysDiffer) {
  // Keys along one direction, with a little of everything.
  const int64_t stride = 32;
  const std::vector<float> direction = Normals(32, 1);
  const double length =
      std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
  std::vector<float> rows = Normals(40 * 32, 2);
  const std::vector<float> along = Normals(40, 3);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = 0.1F * rows[i] + 3 + 2 * along[i / 32] * direction[i % 32];
  }
  std::vector<uint16_t> order(30);
  std::iota(order.begin(), order.end(), uint16_t{7});
  for (const KernelTable* table : RunnableTables()) {
    const AxisResult result = AxisOf(*table, rows, stride, order, 4);
    double cosine = 0;
    for (size_t d = 0; d < 32; ++d) {
      cosine += result.axis[d] * direction[d] / length;
      double mean = 0;
      double square = 0;
      for (const uint16_t i : order) mean += rows[i * 32U + d] / 30.0;
      for (const uint16_t i : order) square += std::pow(rows[i * 32U + d] - mean, 2) / 30.0;
      EXPECT_NEAR(result.mean[d], mean, 1e-5);
      EXPECT_NEAR(result.scaled[d], std::sqrt(result.spread) * result.axis[d], 1e-5);
      EXPECT_NEAR(result.rest[d], std::max(0.0, square - std::pow(result.scaled[d], 2)), 1e-4);
      EXPECT_GE(result.rest[d], 0);
    }
    EXPECT_GT(std::fabs(cosine), 0.999) << table->name;
  }
}

TEST(SparseKernels, EqualKeysHaveNoAxisAndNoSpread) {
  const std::vector<float> rows(64 * 16, 1.5F);
  const std::vector<uint16_t> order = {3, 1, 60, 7};
  for (const KernelTable* table : RunnableTables()) {
    const AxisResult result = AxisOf(*table, rows, 16, order, 3);
    EXPECT_EQ(result.spread, 0);
    EXPECT_EQ(result.axis, std::vector<float>(16, 0.0F));
    EXPECT_EQ(result.mean, std::vector<float>(16, 1.5F));
    EXPECT_EQ(result.rest, std::vector<float>(16, 0.0F));
  }
}

TEST(SparseKernels, AxesHaveTheSameBitsInEveryTable) {
  for (const int64_t stride : {16, 64, 80, 128}) {
    const std::vector<float> rows = Normals(static_cast<size_t>(200 * stride), 4);
    std::vector<uint16_t> order(150);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint16_t>(i * 7 % 200);
    const AxisResult want = AxisOf(ScalarKernels(), rows, stride, order, 3);
    for (const KernelTable* table : RunnableTables()) {
      const AxisResult got = AxisOf(*table, rows, stride, order, 3);
      EXPECT_EQ(BitsOf(got.mean), BitsOf(want.mean)) << table->name << stride;
      EXPECT_EQ(BitsOf(got.axis), BitsOf(want.axis)) << table->name << stride;
      EXPECT_EQ(BitsOf(got.projections), BitsOf(want.projections)) << table->name << stride;
      EXPECT_EQ(BitsOf(got.scaled), BitsOf(want.scaled)) << table->name << stride;
      EXPECT_EQ(BitsOf(got.rest), BitsOf(want.rest)) << table->name << stride;
      EXPECT_EQ(got.spread, want.spread) << table->name << stride;
    }
  }
}

// --- Weighing and choice ---

struct Weighed {
  std::vector<float> weights, errors;
  BlockTotals totals;
};

Weighed Weigh(const KernelTable& table, int panels, uint64_t seed, int least = 8) {
  const auto blocks = static_cast<size_t>(panels * kPanelBlocks);
  Weighed out{Normals(blocks, seed), Normals(blocks, seed + 1), {}};
  for (float& x : out.weights) x *= 8;
  for (float& x : out.errors) x = x * x * x * x;  // up to some tens, mostly small
  const float max = *std::max_element(out.weights.begin(), out.weights.end());
  out.totals = table.weigh_blocks({out.weights.data(), out.errors.data(), panels, max, least});
  return out;
}

TEST(SparseKernels, WeightsAreThoseOfASoftmaxAndErrorsWhatABlockMayHide) {
  for (const KernelTable* table : RunnableTables()) {
    std::vector<float> weights = {0, -1, -3, -90, -200, 0, -2, -1};
    std::vector<float> growths = {0, 0.5F, 1.5F, 30, 100, 2, kErrorGrowthMax, 40};
    weights.resize(16, -10);
    growths.resize(16, 0);
    const std::vector<float> scores = weights;
    const std::vector<float> h = growths;
    const BlockTotals totals = table->weigh_blocks({weights.data(), growths.data(), 1, 0, 8});
    double weight_sum = 0;
    double error_sum = 0;
    for (size_t i = 0; i < 16; ++i) {
      double weight = std::exp2(static_cast<double>(scores[i]));
      if (weight < 1e-30) weight = 0;
      const double hidden = std::min(h[i], kErrorGrowthMax) - std::min(h[i], kWeightGrowthMax);
      const double error = weight * std::exp2(hidden) * std::sqrt(std::min(1.0, 2 * kLn2 * h[i]));
      EXPECT_NEAR(weights[i], weight, 1e-6 * weight);
      EXPECT_NEAR(growths[i], error, 0.125 * error + 1e-18);
      weight_sum += weight;
      error_sum += growths[i];
    }
    EXPECT_NEAR(totals.weight_sum, weight_sum, 1e-5);
    EXPECT_NEAR(totals.error_sum, error_sum, 1e-5 * error_sum);
    EXPECT_EQ(totals.error_max, *std::max_element(growths.begin(), growths.end()));
  }
}

std::vector<uint16_t> Choose(const KernelTable& table, const Weighed& weighed, int panels,
                             float budget, uint16_t before = 0) {
  std::vector<uint16_t> chosen(static_cast<size_t>(panels), before);
  std::vector<uint16_t> other = chosen;
  int32_t guess = -8;
  table.choose_blocks({weighed.errors.data(), panels, weighed.totals.error_sum,
                       weighed.totals.error_max, budget, &guess, chosen.data()});
  // Where it begins to look doesn't matter.
  guess = 5;
  table.choose_blocks({weighed.errors.data(), panels, weighed.totals.error_sum,
                       weighed.totals.error_max, budget, &guess, other.data()});
  EXPECT_EQ(chosen, other);
  return chosen;
}

bool IsChosen(const std::vector<uint16_t>& chosen, size_t block) {
  return (chosen[block / 16] >> (block % 16) & 1) != 0;
}

TEST(SparseKernels, AChoiceIsTheSmallestThatLeavesTheBudgetToAnEighthOfAnOctave) {
  for (const KernelTable* table : RunnableTables()) {
    for (const int panels : {1, 4, 33}) {
      const Weighed weighed = Weigh(*table, panels, 20);
      for (const float part : {1e-6F, 1e-3F, 0.05F, 0.2F, 0.9F}) {
        const float budget = part * weighed.totals.error_sum;
        const std::vector<uint16_t> chosen = Choose(*table, weighed, panels, budget);
        double left = 0;
        float smallest = INFINITY;
        float largest_left = 0;
        for (size_t i = 0; i < weighed.errors.size(); ++i) {
          if (IsChosen(chosen, i)) {
            smallest = std::min(smallest, weighed.errors[i]);
          } else {
            left += weighed.errors[i];
            largest_left = std::max(largest_left, weighed.errors[i]);
          }
        }
        EXPECT_LE(left, budget * 1.00001) << table->name << " " << panels << " " << part;
        EXPECT_LT(largest_left, smallest);
        // Without the smallest level it would leave too much.
        double more = left;
        for (const float error : weighed.errors) {
          if (error >= smallest && error < 1.125F * smallest) more += error;
        }
        EXPECT_GT(more, budget * 0.99999);
      }
    }
  }
}

TEST(SparseKernels, AFloorLeavesTheLargestErrorsAboveIt) {
  for (const KernelTable* table : RunnableTables()) {
    for (const int least : {0, 1, 8, 16}) {
      const int panels = 9;
      const Weighed weighed = Weigh(*table, panels, 30, least);
      int above = 0;
      for (const float error : weighed.errors) above += error >= weighed.totals.error_floor ? 1 : 0;
      EXPECT_GE(above, least) << table->name;
      EXPECT_LE(above, least + least / 4) << table->name;
    }
    // Blocks that hide nothing stay below it.
    std::vector<float> weights(16, -1.0F);
    std::vector<float> growths(16, 0.0F);
    EXPECT_GT(table->weigh_blocks({weights.data(), growths.data(), 1, 0, 8}).error_floor, 0);
  }
}

TEST(SparseKernels, RowsJoinWhatIsBelowTheirFloors) {
  const int panels = 7;
  const int rows = 3;
  const int64_t stride = panels * 16;
  std::vector<float> errors;
  std::vector<float> floors;
  for (uint64_t r = 0; r < rows; ++r) {
    const Weighed weighed = Weigh(ScalarKernels(), panels, 70 + 2 * r);
    errors.insert(errors.end(), weighed.errors.begin(), weighed.errors.end());
    floors.push_back(weighed.totals.error_floor);
  }
  const std::vector<float> factors = {0.5F, 2.0F, 3.0F};
  std::vector<uint32_t> want;
  for (const KernelTable* table : RunnableTables()) {
    std::vector<float> joined(static_cast<size_t>(stride));
    std::vector<uint16_t> chosen(panels, 0x5555);
    const BlockTotals totals =
        table->join_errors({errors.data(), stride, rows, panels, factors.data(), floors.data(),
                            joined.data(), chosen.data()});
    double total = 0;
    for (int64_t block = 0; block < stride; ++block) {
      const auto b = static_cast<size_t>(block);
      bool above = false;
      double sum = 0;
      for (size_t r = 0; r < rows; ++r) {
        const float error = errors[r * static_cast<size_t>(stride) + b];
        above |= error >= floors[r];
        sum += static_cast<double>(error) * factors[r];
      }
      EXPECT_EQ(IsChosen(chosen, b), above);
      EXPECT_NEAR(joined[b], above ? 0 : sum, 1e-6 * sum);
      total += joined[b];
    }
    EXPECT_NEAR(totals.error_sum, total, 1e-5 * total);
    EXPECT_EQ(totals.error_max, *std::max_element(joined.begin(), joined.end()));
    std::vector<uint32_t> bits = BitsOf(joined);
    if (want.empty()) want = bits;
    EXPECT_EQ(bits, want) << table->name;
  }
}

TEST(SparseKernels, WhatOthersChoseStaysChosen) {
  const Weighed weighed = Weigh(ScalarKernels(), 2, 40);
  const float budget = 0.1F * weighed.totals.error_sum;
  const std::vector<uint16_t> alone = Choose(ScalarKernels(), weighed, 2, budget);
  const std::vector<uint16_t> both = Choose(ScalarKernels(), weighed, 2, budget, 0x8001);
  for (size_t p = 0; p < 2; ++p) EXPECT_EQ(both[p], alone[p] | 0x8001);
}

TEST(SparseKernels, ChoicesHaveTheSameBitsInEveryTable) {
  for (const int panels : {1, 7, 64}) {
    const Weighed want = Weigh(ScalarKernels(), panels, 50);
    for (const KernelTable* table : RunnableTables()) {
      Weighed got = Weigh(*table, panels, 50);
      EXPECT_EQ(BitsOf(got.weights), BitsOf(want.weights)) << table->name;
      EXPECT_EQ(BitsOf(got.errors), BitsOf(want.errors)) << table->name;
      EXPECT_EQ(got.totals.error_sum, want.totals.error_sum) << table->name;
      EXPECT_EQ(got.totals.error_floor, want.totals.error_floor) << table->name;
      const float budget = 0.1F * want.totals.error_sum;
      const std::vector<uint16_t> chosen = Choose(*table, got, panels, budget);
      EXPECT_EQ(chosen, Choose(ScalarKernels(), want, panels, budget));
      Weighed dropped = want;
      const BlockTotals left =
          table->drop_blocks({got.weights.data(), got.errors.data(), chosen.data(), panels});
      const BlockTotals left_scalar = ScalarKernels().drop_blocks(
          {dropped.weights.data(), dropped.errors.data(), chosen.data(), panels});
      EXPECT_EQ(BitsOf(got.weights), BitsOf(dropped.weights));
      EXPECT_EQ(left.weight_sum, left_scalar.weight_sum);
      EXPECT_EQ(left.error_sum, left_scalar.error_sum);
      EXPECT_EQ(left.error_max, left_scalar.error_max);
      EXPECT_EQ(left.error_max, *std::max_element(got.errors.begin(), got.errors.end()));
    }
  }
}

// --- Far part ---

TEST(SparseKernels, MeanValuesAddUpByWeight) {
  for (const int width : {64, 45, 128}) {
    for (const int rows : {1, 3, 8, 24}) {
      const int segments = 3;
      const int blocks = 32;
      const int64_t stride = segments * blocks;
      const auto padded = static_cast<size_t>((width + 15) / 16 * 16);
      const std::vector<float> weights = Normals(static_cast<size_t>(rows * stride), 60);
      const std::vector<float> before = Normals(static_cast<size_t>(rows * width), 61);
      const std::vector<float> factors = Normals(static_cast<size_t>(rows), 62);
      std::vector<std::vector<std::byte>> means;
      std::vector<const std::byte*> at;
      for (uint64_t s = 0; s < 3; ++s) means.push_back(Halves(Normals(blocks * padded, 63 + s)));
      for (const auto& segment : means) at.push_back(segment.data());
      std::vector<uint32_t> want;
      for (const KernelTable* table : RunnableTables()) {
        std::vector<float> sums = before;
        table->add_block_means({weights.data(), stride, rows, at.data(), segments, blocks, width,
                                factors.data(), sums.data()});
        for (size_t i = 0; i < sums.size(); ++i) {
          const size_t row = i / static_cast<size_t>(width);
          const size_t d = i % static_cast<size_t>(width);
          double sum = static_cast<double>(before[i]) * factors[row];
          for (size_t b = 0; b < static_cast<size_t>(stride); ++b) {
            sum += static_cast<double>(weights[row * static_cast<size_t>(stride) + b]) *
                   HalfAt(means[b / blocks], b % blocks * padded + d);
          }
          EXPECT_NEAR(sums[i], sum, 1e-4);
        }
        if (want.empty()) want = BitsOf(sums);
        EXPECT_EQ(BitsOf(sums), want) << table->name << " " << width << " " << rows;
      }
    }
  }
}

// --- Chosen blocks ---

struct PanelCase {
  DType type;
  int rows;
  int panels;
  int key_width;
  int value_width;
};
constexpr PanelCase kPanelCases[] = {{DType::kF16, 8, 8, 64, 64},   {DType::kF16, 1, 19, 64, 64},
                                     {DType::kF16, 24, 5, 64, 64},  {DType::kBF16, 3, 9, 96, 80},
                                     {DType::kF32, 8, 17, 64, 64},  {DType::kF32, 5, 3, 20, 45},
                                     {DType::kF16, 9, 1, 128, 128}, {DType::kF16, 7, 0, 64, 64}};

TEST(SparseKernels, ChosenPanelsAreAttendedToExactly) {
  for (const PanelCase& c : kPanelCases) {
    const auto key_count = static_cast<size_t>(c.panels * 16);
    const auto key_width = static_cast<size_t>(c.key_width);
    const auto value_width = static_cast<size_t>(c.value_width);
    const auto rows = static_cast<size_t>(c.rows);
    std::vector<std::vector<float>> keys;
    std::vector<std::vector<float>> values;
    const auto pages = static_cast<size_t>((c.panels + 3) / 4);
    const auto key_bytes = static_cast<size_t>(64 * RowBytes(c.type, c.key_width));
    const auto value_bytes = static_cast<size_t>(64 * RowBytes(c.type, c.value_width));
    std::vector<std::byte> key_memory(pages * key_bytes);
    std::vector<std::byte> value_memory(pages * value_bytes);
    for (size_t i = 0; i < key_count; ++i) {
      keys.push_back(AsStored(Normals(key_width, 1000 + i), c.type));
      values.push_back(AsStored(Normals(value_width, 2000 + i), c.type));
      const auto slot = static_cast<int>(i % 64);
      ScalarKernels().store_key(keys[i].data(), c.key_width, c.type, slot,
                                key_memory.data() + i / 64 * key_bytes);
      ScalarKernels().store_value(values[i].data(), c.value_width, c.type, slot,
                                  value_memory.data() + i / 64 * value_bytes);
    }
    std::vector<SealedPanel> panels;
    for (size_t p = 0; p < static_cast<size_t>(c.panels); ++p) {
      panels.push_back(
          {key_memory.data() + p * key_bytes / 4, value_memory.data() + p * value_bytes / 4});
    }
    std::reverse(panels.begin(), panels.end());  // any order
    const std::vector<float> queries = Normals(rows * key_width, 3);
    std::vector<uint32_t> want;
    for (const KernelTable* table : RunnableTables()) {
      std::vector<SoftmaxState> states(rows, {0.5F, 2.0F});
      std::vector<float> sums(rows * value_width, 0.25F);
      table->attend_panels[static_cast<size_t>(c.type)]({queries.data(), c.rows, panels.data(),
                                                         c.panels, c.key_width, c.value_width,
                                                         states.data(), sums.data()});
      for (size_t r = 0; r < rows; ++r) {
        double max = 0.5;
        std::vector<double> scores;
        for (const auto& key : keys) {
          scores.push_back(std::inner_product(
              key.begin(), key.end(), queries.begin() + static_cast<int64_t>(r * key_width), 0.0));
          max = std::max(max, scores.back());
        }
        double sum = 2 * std::exp2(0.5 - max);
        for (const double score : scores) sum += std::exp2(score - max);
        EXPECT_NEAR(states[r].max, max, 1e-4);
        EXPECT_NEAR(states[r].sum, sum, 1e-4 * sum);
        for (size_t d = 0; d < value_width; ++d) {
          double value = 0.25 * std::exp2(0.5 - max);
          for (size_t i = 0; i < key_count; ++i) {
            value += std::exp2(scores[i] - max) * values[i][d];
          }
          EXPECT_NEAR(sums[r * value_width + d], value, 1e-4 * (1 + sum));
        }
      }
      std::vector<float> all = sums;
      for (const SoftmaxState& state : states) all.insert(all.end(), {state.max, state.sum});
      if (want.empty()) want = BitsOf(all);
      EXPECT_EQ(BitsOf(all), want) << table->name << " rows " << c.rows;
    }
  }
}

// --- Pages as rows ---

TEST(SparseKernels, AKvPageComesBackAsRowsOfTheStoredValues) {
  for (const DType type : KvTypes()) {
    for (const int width : {64, 45, 80}) {
      const int64_t stride = (width + 15) / 16 * 16;
      std::vector<std::byte> keys(static_cast<size_t>(KvPartBytes(type, width)));
      std::vector<std::byte> values(keys.size());
      std::vector<std::vector<float>> rows;
      for (int slot = 0; slot < kKvPageTokens; ++slot) {
        const std::vector<float> row =
            Normals(static_cast<size_t>(width), 70 + static_cast<uint64_t>(slot));
        ScalarKernels().store_key(row.data(), width, type, slot, keys.data());
        ScalarKernels().store_value(row.data(), width, type, slot, values.data());
        rows.push_back(AsStored(row, type));
      }
      for (const KernelTable* table : RunnableTables()) {
        std::vector<float> key_rows(static_cast<size_t>(kKvPageTokens * stride), -7);
        std::vector<float> value_rows = key_rows;
        table->load_keys(keys.data(), width, type, stride, key_rows.data());
        table->load_values(values.data(), width, type, stride, value_rows.data());
        for (int64_t i = 0; i < kKvPageTokens * stride; ++i) {
          const int64_t d = i % stride;
          const float want =
              d < width ? rows[static_cast<size_t>(i / stride)][static_cast<size_t>(d)] : -7.0F;
          ASSERT_EQ(key_rows[static_cast<size_t>(i)], want) << table->name << " " << i;
          ASSERT_EQ(value_rows[static_cast<size_t>(i)], want) << table->name << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace remontoir
