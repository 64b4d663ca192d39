// Sealing, estimate and choice of sparse attention in the words of an instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/row_tiles.h"
#include "kernels/sparse.h"
#include "kernels/vector_math.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

template <class Words>
class SparseKernel {
 public:
  static void Install(KernelTable* table) {
    table->principal_axis = &FindPrincipalAxis;
    table->block_spread = &BlockSpread;
    table->estimate_blocks = &EstimateBlocks;
    table->weigh_blocks = &WeighBlocks;
    table->choose_blocks = &ChooseBlocks;
    table->drop_blocks = &DropBlocks;
    table->add_block_means = &AddBlockMeans;
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;
  using Tiles = RowTiles<Words>;

  static constexpr int kLanes = scalar::kLanes;
  static constexpr int64_t kHalfBytes = 2;
  static constexpr float kHalfLn2 = 0.346573590F;
  static constexpr float kTwoLn2 = 1.38629436F;

  // --- Sealing ---

  static const float* Row(const KeySet& keys, int i) {
    return keys.rows + keys.order[i] * keys.stride;
  }

  // Calls run(first column, integral constant of sixteens) for runs of columns whose sums over keys
  // go side by side.
  template <class Run>
  static void ForEachRun(int64_t stride, const Run& run) {
    int64_t d = 0;
    for (; d + 4 * kLanes <= stride; d += 4 * kLanes) run(d, std::integral_constant<int, 4>{});
    for (; d < stride; d += kLanes) run(d, std::integral_constant<int, 1>{});
  }

  // sums[c] += term(i, the key's sixteen at column c), key by key.
  template <int kCount, class Term>
  static void SumOverKeys(const KeySet& keys, int64_t column, Floats (&sums)[kCount],
                          const Term& term) {
    for (int i = 0; i < keys.count; ++i) {
      const float* at = Row(keys, i) + column;
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
        sums[c] = term(i, c, Words::Load(at + c * kLanes), sums[c]);
      }
    }
  }

  static void FindMean(const KeySet& keys, float* mean) {
    const Floats inverse = Words::Set(1.0F / static_cast<float>(keys.count));
    ForEachRun(keys.stride, [&](int64_t d, auto columns) {
      constexpr int kCount = decltype(columns)::value;
      Floats sums[kCount];
      for (int c = 0; c < kCount; ++c) sums[c] = Words::Zero();
      SumOverKeys<kCount>(keys, d, sums,
                          [](int, int, Floats x, Floats sum) { return Words::Add(sum, x); });
      for (int c = 0; c < kCount; ++c) {
        Words::Store(mean + d + c * kLanes, Words::Multiply(sums[c], inverse));
      }
    });
  }

  static float Dot(const float* a, const float* b, int64_t stride) {
    Floats sum = Words::Zero();
    for (int64_t d = 0; d < stride; d += kLanes) {
      sum = Words::MultiplyAdd(Words::Load(a + d), Words::Load(b + d), sum);
    }
    return Words::FoldLanes(sum);
  }

  // The deviation of the key that is farthest from the mean, the first of such.
  static void Farthest(const KeySet& keys, const float* mean, float* deviation) {
    float distance_max = -1;
    int farthest = 0;
    for (int i = 0; i < keys.count; ++i) {
      const float* row = Row(keys, i);
      Floats sum = Words::Zero();
      for (int64_t d = 0; d < keys.stride; d += kLanes) {
        const Floats x = Words::Subtract(Words::Load(row + d), Words::Load(mean + d));
        sum = Words::MultiplyAdd(x, x, sum);
      }
      const float distance = Words::FoldLanes(sum);
      if (distance > distance_max) {
        distance_max = distance;
        farthest = i;
      }
    }
    const float* row = Row(keys, farthest);
    for (int64_t d = 0; d < keys.stride; d += kLanes) {
      Words::Store(deviation + d, Words::Subtract(Words::Load(row + d), Words::Load(mean + d)));
    }
  }

  // Makes it of length 1; zeros, and false, where it has no length (or no finite one).
  static bool Normalise(float* axis, int64_t stride) {
    const float square = Dot(axis, axis, stride);
    const bool has_length = square > 0 && square < std::numeric_limits<float>::infinity();
    const Floats factor = Words::Set(has_length ? 1.0F / std::sqrt(square) : 0.0F);
    for (int64_t d = 0; d < stride; d += kLanes) {
      const Floats scaled = Words::Multiply(Words::Load(axis + d), factor);
      Words::Store(axis + d, has_length ? scaled : Words::Zero());
    }
    return has_length;
  }

  static void Project(const KeySet& keys, PrincipalAxis* out) {
    const float centre = Dot(out->mean, out->axis, keys.stride);
    for (int i = 0; i < keys.count; ++i) {
      out->projections[i] = Dot(Row(keys, i), out->axis, keys.stride) - centre;
    }
  }

  // axis = sum over keys of projection * deviation, of length 1.
  static bool Iterate(const KeySet& keys, PrincipalAxis* out) {
    float total = 0;
    for (int i = 0; i < keys.count; ++i) total += out->projections[i];
    ForEachRun(keys.stride, [&](int64_t d, auto columns) {
      constexpr int kCount = decltype(columns)::value;
      Floats sums[kCount];
      for (int c = 0; c < kCount; ++c) {
        sums[c] = Words::Multiply(Words::Load(out->mean + d + c * kLanes), Words::Set(-total));
      }
      SumOverKeys<kCount>(keys, d, sums, [out](int i, int, Floats x, Floats sum) {
        return Words::MultiplyAdd(Words::SetFrom(out->projections + i), x, sum);
      });
      for (int c = 0; c < kCount; ++c) Words::Store(out->axis + d + c * kLanes, sums[c]);
    });
    return Normalise(out->axis, keys.stride);
  }

  static void FindPrincipalAxis(const KeySet& keys, int iterations, PrincipalAxis* out) {
    FindMean(keys, out->mean);
    Farthest(keys, out->mean, out->axis);
    bool has_axis = Normalise(out->axis, keys.stride);
    for (int i = 0; i < iterations && has_axis; ++i) {
      Project(keys, out);
      has_axis = Iterate(keys, out);
    }
    Project(keys, out);
    float sum = 0;
    for (int i = 0; i < keys.count; ++i) {
      sum = std::fma(out->projections[i], out->projections[i], sum);
    }
    out->spread = has_axis ? sum / static_cast<float>(keys.count) : 0.0F;
  }

  // scaled_axis = axis * sqrt(spread); rest = the variance that this leaves over, not below zero.
  static void BlockSpread(const KeySet& keys, const PrincipalAxis& axis, float* scaled_axis,
                          float* rest) {
    const Floats deviation = Words::Set(std::sqrt(axis.spread));
    const Floats inverse = Words::Set(1.0F / static_cast<float>(keys.count));
    for (int64_t d = 0; d < keys.stride; d += kLanes) {
      const Floats mean = Words::Load(axis.mean + d);
      Floats sum = Words::Zero();
      for (int i = 0; i < keys.count; ++i) {
        const Floats x = Words::Subtract(Words::Load(Row(keys, i) + d), mean);
        sum = Words::MultiplyAdd(x, x, sum);
      }
      const Floats scaled = Words::Multiply(Words::Load(axis.axis + d), deviation);
      const Floats explained = Words::Multiply(scaled, scaled);
      const Floats left = Words::Subtract(Words::Multiply(sum, inverse), explained);
      Words::Store(scaled_axis + d, scaled);
      Words::Store(rest + d, Words::Larger(Words::Zero(), left));  // a NaN stays
    }
  }

  // --- Estimate ---

  // sums[r][v] = rows[r][0 ... width) . statistic[v], where the sixteen values of a statistic at d
  // stand at at[v] + 32 * d.
  template <int kRows, int kCount>
  static void Dots(const float* first_row, int64_t width, const std::byte* const (&at)[kCount],
                   Floats (&sums)[kRows][kCount]) {
    const float* rows[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      rows[r] = first_row + r * width;
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sums[r][v] = Words::Zero();
    }
#pragma GCC unroll 4
    for (int64_t d = 0; d < width; ++d) {
      Tiles::template MultiplyAdd<DType::kF16, kRows, kCount>(
          [&](int r) { return Words::SetFrom(rows[r] + d); },
          [&](int v) { return at[v] + d * kLanes * kHalfBytes; }, sums);
    }
  }

  template <int kRows, int kCount>
  [[gnu::noinline]] static void EstimateTile(const BlockEstimate& estimate, int row, int panel) {
    const int64_t width = estimate.key_width;
    const int64_t statistic_bytes = width * kLanes * kHalfBytes;
    const std::byte* means[kCount];
    const std::byte* axes[kCount];
    const std::byte* rests[kCount];
    for (int v = 0; v < kCount; ++v) {
      means[v] = estimate.panels[panel + v];
      axes[v] = means[v] + statistic_bytes;
      rests[v] = axes[v] + statistic_bytes;
    }
    const float* queries = estimate.queries + row * width;
    float* growths = estimate.growths + row * estimate.stride + panel * kLanes;
    float* weights = estimate.weights + row * estimate.stride + panel * kLanes;
    Floats sums[kRows][kCount];
    Dots<kRows, kCount>(estimate.squares + row * width, width, rests, sums);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        Words::Store(growths + r * estimate.stride + v * kLanes, sums[r][v]);
      }
    }
    Dots<kRows, kCount>(queries, width, axes, sums);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        float* growth = growths + r * estimate.stride + v * kLanes;
        const Floats variance = Words::MultiplyAdd(sums[r][v], sums[r][v], Words::Load(growth));
        Words::Store(growth, Words::Multiply(variance, Words::Set(kHalfLn2)));
      }
    }
    Dots<kRows, kCount>(queries, width, means, sums);
    const Floats keys = Words::Set(estimate.log2_block_keys);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        const int64_t at = r * estimate.stride + v * kLanes;
        const Floats growth =
            Words::Smaller(Words::Load(growths + at), Words::Set(kWeightGrowthMax));
        Words::Store(weights + at, Words::Add(Words::Add(keys, sums[r][v]), growth));
      }
    }
  }

  template <int kRows>
  static void EstimateRows(const BlockEstimate& estimate, int row) {
    constexpr int kCount = Tiles::SixteensOf(kRows);
    int panel = 0;
    for (; panel + kCount <= estimate.panel_count; panel += kCount) {
      EstimateTile<kRows, kCount>(estimate, row, panel);
    }
    for (; panel < estimate.panel_count; ++panel) EstimateTile<kRows, 1>(estimate, row, panel);
    for (int r = row; r < row + kRows; ++r) {
      const float* weights = estimate.weights + r * estimate.stride;
      Floats largest = Words::Set(-std::numeric_limits<float>::infinity());
      for (int p = 0; p < estimate.panel_count; ++p) {
        largest = Words::Larger(Words::Load(weights + p * kLanes), largest);
      }
      estimate.weight_max[r] = Words::LargestLane(largest);
    }
  }

  static void EstimateBlocks(const BlockEstimate& estimate) {
    Tiles::ForEach(estimate.row_count, [&](int row, auto height) {
      EstimateRows<decltype(height)::value>(estimate, row);
    });
  }

  // --- Choice ---

  static BlockTotals WeighBlocks(const BlockWeighing& blocks) {
    const Floats max = Words::Set(blocks.max);
    Floats weight_sums = Words::Zero();
    Floats error_sums = Words::Zero();
    Floats largest = Words::Zero();
    for (int p = 0; p < blocks.panel_count; ++p) {
      float* weight_at = blocks.weights + p * kLanes;
      float* growth_at = blocks.growths + p * kLanes;
      const Floats growth = Words::Load(growth_at);
      Floats weight = Math::Exp2UpToZero(Words::Subtract(Words::Load(weight_at), max));
      weight = Words::Clear(Words::Less(weight, Words::Set(kBlockWeightMin)), weight);
      const Floats hidden = Words::Subtract(Words::Smaller(growth, Words::Set(kErrorGrowthMax)),
                                            Words::Smaller(growth, Words::Set(kWeightGrowthMax)));
      const Floats variance =
          Words::Smaller(Words::Multiply(growth, Words::Set(kTwoLn2)), Words::Set(1.0F));
      const Floats error = Words::RoughProduct(weight, hidden, variance);
      Words::Store(weight_at, weight);
      Words::Store(growth_at, error);
      weight_sums = Words::Add(weight_sums, weight);
      error_sums = Words::Add(error_sums, error);
      largest = Words::Larger(error, largest);
    }
    return {Words::FoldLanes(weight_sums), Words::FoldLanes(error_sums),
            Words::LargestLane(largest)};
  }

  // Half octaves of positive floats, ascending.
  static uint32_t LevelOf(float error) { return std::bit_cast<uint32_t>(error) >> 22; }
  static float FromLevel(uint32_t level) { return std::bit_cast<float>(level << 22); }

  // At three levels at once: sums of errors below, or counts from each on.
  template <bool kCounts>
  static void TallyLevels(const BlockChoice& choice, const uint32_t (&levels)[3],
                          float (&tallies)[3]) {
    const Floats one = Words::Set(1.0F);
    const Floats first = Words::Set(FromLevel(levels[0]));
    const Floats second = Words::Set(FromLevel(levels[1]));
    const Floats third = Words::Set(FromLevel(levels[2]));
    Floats sums[3] = {Words::Zero(), Words::Zero(), Words::Zero()};
    for (int p = 0; p < choice.panel_count; ++p) {
      const Floats errors = Words::Load(choice.errors + p * kLanes);
      const auto add = [&](Floats level, int i) {
        const typename Words::Mask below = Words::Less(errors, level);
        const Floats part =
            kCounts ? Words::Clear(below, one) : Words::Select(below, errors, Words::Zero());
        sums[i] = Words::Add(sums[i], part);
      };
      add(first, 0);
      add(second, 1);
      add(third, 2);
    }
    for (int i = 0; i < 3; ++i) tallies[i] = Words::FoldLanes(sums[i]);
  }

  // Between a level for which holds(tally) is true and a higher one for which it isn't: the highest
  // for which it is, as tallies only grow with the level (sums) or fall (counts).
  // The first levels to try are given; they don't change what is found.
  template <bool kCounts, class Holds>
  static uint32_t SearchLevel(const BlockChoice& choice, uint32_t low, uint32_t high,
                              const int64_t (&first)[3], const Holds& holds) {
    for (bool begins = true; high - low > 1; begins = false) {
      const uint32_t gap = high - low;
      uint32_t levels[3] = {low + std::max(1U, gap / 4), low + std::max(1U, gap / 2),
                            low + std::max(1U, 3 * gap / 4)};
      for (int i = 0; i < 3 && begins; ++i) {
        levels[i] = static_cast<uint32_t>(
            std::clamp<int64_t>(first[i], int64_t{low} + 1, int64_t{high} - 1));
      }
      float tallies[3];
      TallyLevels<kCounts>(choice, levels, tallies);
      for (int i = 2; i >= 0; --i) {
        if (!holds(tallies[i])) high = levels[i];
      }
      for (int i = 0; i < 3; ++i) {
        if (levels[i] < high && holds(tallies[i])) low = levels[i];
      }
    }
    return low;
  }

  // Sets the bits of blocks with errors from `level` on; returns how many.
  static int MarkFrom(const BlockChoice& choice, float level) {
    const Floats levels = Words::Set(level);
    int count = 0;
    for (int p = 0; p < choice.panel_count; ++p) {
      const Floats errors = Words::Load(choice.errors + p * kLanes);
      const uint32_t bits = ~Words::Bits(Words::Less(errors, levels)) & 0xffffU;
      choice.chosen[p] = static_cast<uint16_t>(choice.chosen[p] | bits);
      count += std::popcount(bits);
    }
    return count;
  }

  // Sets the bits of the first `count` blocks with errors in [low, high).
  static void MarkFirst(const BlockChoice& choice, float low, float high, int count) {
    for (int p = 0; p < choice.panel_count && count > 0; ++p) {
      const Floats errors = Words::Load(choice.errors + p * kLanes);
      uint32_t bits = Words::Bits(Words::Less(errors, Words::Set(high))) &
                      ~Words::Bits(Words::Less(errors, Words::Set(low))) & 0xffffU;
      for (; bits != 0 && count > 0; bits &= bits - 1, --count) {
        choice.chosen[p] = static_cast<uint16_t>(choice.chosen[p] | (bits & (0U - bits)));
      }
    }
  }

  static void ChooseBlocks(const BlockChoice& choice) {
    const int blocks = choice.panel_count * kLanes;
    const uint32_t top = LevelOf(choice.totals.error_max) + 1;
    uint32_t level = top;
    if (choice.totals.error_sum > choice.budget) {
      // All blocks below this level together have a sixteenth of the budget.
      const uint32_t low = LevelOf(choice.budget / static_cast<float>(16 * blocks));
      // Rows that stand together choose much alike.
      const int64_t base = LevelOf(choice.budget);
      const int64_t guess = base + *choice.level_guess;
      level = SearchLevel<false>(choice, std::min(low, top - 1), top, {guess - 1, guess, guess + 1},
                                 [&](float sum) { return sum <= choice.budget; });
      *choice.level_guess = static_cast<int32_t>(int64_t{level} - base);
    }
    const int marked = level == top ? 0 : MarkFrom(choice, FromLevel(level));
    const int least = std::min(choice.chosen_min, blocks);
    if (marked >= least) return;
    const uint32_t last = SearchLevel<true>(
        choice, 0, level, {int64_t{level} - 8, int64_t{level} - 4, int64_t{level} - 2},
        [&](float count) { return count >= static_cast<float>(least); });
    const int above = MarkFrom(choice, FromLevel(last + 1));
    MarkFirst(choice, FromLevel(last), FromLevel(last + 1), least - above);
  }

  static BlockTotals DropBlocks(const BlockDrop& drop) {
    Floats weight_sums = Words::Zero();
    Floats error_sums = Words::Zero();
    for (int p = 0; p < drop.panel_count; ++p) {
      const typename Words::Mask chosen = Words::FromBits(drop.chosen[p]);
      float* weight_at = drop.weights + p * kLanes;
      float* error_at = drop.errors + p * kLanes;
      const Floats weight = Words::Clear(chosen, Words::Load(weight_at));
      const Floats error = Words::Clear(chosen, Words::Load(error_at));
      Words::Store(weight_at, weight);
      Words::Store(error_at, error);
      weight_sums = Words::Add(weight_sums, weight);
      error_sums = Words::Add(error_sums, error);
    }
    return {Words::FoldLanes(weight_sums), Words::FoldLanes(error_sums), 0};
  }

  // Columns [column, column + 16 * kCount), the last sixteen of them short where `count` says so.
  template <int kRows, int kCount>
  [[gnu::noinline]] static void AddMeanColumns(const BlockMeans& blocks, int row, int column,
                                               int64_t count) {
    const int64_t width = blocks.value_width;
    const int64_t row_bytes = (width + kLanes - 1) / kLanes * kLanes * kHalfBytes;
    float* out = blocks.sums + row * width + column;
    const float* weights[kRows];
    Floats sums[kRows][kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      weights[r] = blocks.weights + (row + r) * blocks.stride;
      const Floats factor = Words::Set(blocks.factors[row + r]);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        const float* at = out + r * width + v * kLanes;
        const Floats sum = kCount == 1 ? Words::LoadFirst(at, count) : Words::Load(at);
        sums[r][v] = Words::Multiply(sum, factor);
      }
    }
    int64_t block = 0;
    for (int s = 0; s < blocks.segment_count; ++s) {
      const std::byte* at = blocks.means[s] + column * kHalfBytes;
      for (int b = 0; b < blocks.segment_blocks; ++b, ++block, at += row_bytes) {
        Tiles::template MultiplyAdd<DType::kF16, kRows, kCount>(
            [&](int r) { return Words::SetFrom(weights[r] + block); },
            [&](int v) { return at + v * kLanes * kHalfBytes; }, sums);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        float* at = out + r * width + v * kLanes;
        if constexpr (kCount == 1) {
          Words::StoreFirst(at, count, sums[r][v]);
        } else {
          Words::Store(at, sums[r][v]);
        }
      }
    }
  }

  static void AddBlockMeans(const BlockMeans& blocks) {
    Tiles::ForEach(blocks.row_count, [&](int row, auto height) {
      constexpr int kRows = decltype(height)::value;
      constexpr int kCount = Tiles::SixteensOf(kRows);
      int column = 0;
      if constexpr (kCount > 1) {
        for (; column + kLanes * kCount <= blocks.value_width; column += kLanes * kCount) {
          AddMeanColumns<kRows, kCount>(blocks, row, column, kLanes);
        }
      }
      for (; column < blocks.value_width; column += kLanes) {
        const int64_t count = std::min<int64_t>(kLanes, blocks.value_width - column);
        AddMeanColumns<kRows, 1>(blocks, row, column, count);
      }
    });
  }
};

}  // namespace remontoir
