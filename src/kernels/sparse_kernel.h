// Sealing, choice and far part of sparse attention in the words of an instruction set.
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
    table->weigh_blocks = &WeighBlocks;
    table->join_errors = &JoinErrors;
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

  // The sum of term(sixteen projections, sum) over all; behind the last one are zeros.
  template <class Term>
  static float SumOfProjections(const KeySet& keys, const float* projections, const Term& term) {
    Floats sum = Words::Zero();
    int i = 0;
    for (; i + kLanes <= keys.count; i += kLanes) sum = term(Words::Load(projections + i), sum);
    if (i < keys.count) sum = term(Words::LoadFirst(projections + i, keys.count - i), sum);
    return Words::FoldLanes(sum);
  }

  // axis = sum over keys of projection * deviation, of length 1.
  static bool Iterate(const KeySet& keys, PrincipalAxis* out) {
    const float total = SumOfProjections(keys, out->projections,
                                         [](Floats x, Floats sum) { return Words::Add(sum, x); });
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
    const float sum = SumOfProjections(keys, out->projections, [](Floats x, Floats squares) {
      return Words::MultiplyAdd(x, x, squares);
    });
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

  // --- Choice ---

  static BlockTotals WeighBlocks(const BlockWeighing& blocks) {
    const Floats max = Words::Set(blocks.max);
    Floats weight_sums = Words::Zero();
    Floats error_sums = Words::Zero();
    Floats largest = Words::Zero();
    Floats second = Words::Zero();
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
      second = Words::Larger(Words::Smaller(error, largest), second);
      largest = Words::Larger(error, largest);
    }
    return {Words::FoldLanes(weight_sums), Words::FoldLanes(error_sums),
            Words::LargestLane(largest), FloorOf(blocks.chosen_min, largest, second)};
  }

  // The count-th largest of the two largest errors in each lane: as many blocks have no smaller
  // one, and seldom more.
  static float FloorOf(int count, Floats largest, Floats second) {
    alignas(64) float lanes[2 * kLanes];
    Words::Store(lanes, largest);
    Words::Store(lanes + kLanes, second);
    float floor = std::numeric_limits<float>::infinity();
    for (const float lane : lanes) {
      const Floats x = Words::Set(lane);
      const uint32_t bits = (Words::Bits(Words::Less(x, largest)) & 0xffffU) << kLanes |
                            (Words::Bits(Words::Less(x, second)) & 0xffffU);
      if (std::popcount(bits) < count) floor = std::min(floor, lane);
    }
    return std::max(floor, std::numeric_limits<float>::min());
  }

  // Chooses what is not below the rows' floors and joins the rest.
  static BlockTotals JoinErrors(const ErrorJoin& join) {
    Floats totals = Words::Zero();
    Floats largest = Words::Zero();
    for (int p = 0; p < join.panel_count; ++p) {
      const float* errors = join.errors + p * kLanes;
      uint32_t below = 0xffff;
      Floats sum = Words::Zero();
      for (int r = 0; r < join.row_count; ++r, errors += join.stride) {
        const Floats error = Words::Load(errors);
        below &= Words::Bits(Words::Less(error, Words::SetFrom(join.floors + r)));
        sum = Words::MultiplyAdd(error, Words::SetFrom(join.factors + r), sum);
      }
      sum = Words::Clear(Words::FromBits(~below & 0xffffU), sum);
      join.chosen[p] = static_cast<uint16_t>(~below);
      Words::Store(join.joined + p * kLanes, sum);
      totals = Words::Add(totals, sum);
      largest = Words::Larger(sum, largest);
    }
    return {0, Words::FoldLanes(totals), Words::LargestLane(largest), 0};
  }

  // Eighths of octaves of positive floats, ascending.
  static uint32_t LevelOf(float error) { return std::bit_cast<uint32_t>(error) >> 20; }
  static float FromLevel(uint32_t level) { return std::bit_cast<float>(level << 20); }

  // Sums of the errors below three levels.
  static void TallyLevels(const BlockChoice& choice, const uint32_t (&levels)[3],
                          float (&tallies)[3]) {
    const Floats first = Words::Set(FromLevel(levels[0]));
    const Floats second = Words::Set(FromLevel(levels[1]));
    const Floats third = Words::Set(FromLevel(levels[2]));
    Floats sums[3] = {Words::Zero(), Words::Zero(), Words::Zero()};
    for (int p = 0; p < choice.panel_count; ++p) {
      const Floats errors = Words::Load(choice.errors + p * kLanes);
      const auto add = [&](Floats level, int i) {
        sums[i] =
            Words::Add(sums[i], Words::Select(Words::Less(errors, level), errors, Words::Zero()));
      };
      add(first, 0);
      add(second, 1);
      add(third, 2);
    }
    for (int i = 0; i < 3; ++i) tallies[i] = Words::FoldLanes(sums[i]);
  }

  // Between a level that leaves at most the budget and a higher one that doesn't: the highest that
  // does. The first levels to try are given; they don't change what is found.
  static uint32_t SearchLevel(const BlockChoice& choice, uint32_t low, uint32_t high,
                              const int64_t (&first)[3]) {
    for (bool begins = true; high - low > 1; begins = false) {
      const uint32_t gap = high - low;
      uint32_t levels[3] = {low + std::max(1U, gap / 4), low + std::max(1U, gap / 2),
                            low + std::max(1U, 3 * gap / 4)};
      for (int i = 0; i < 3 && begins; ++i) {
        levels[i] = static_cast<uint32_t>(
            std::clamp<int64_t>(first[i], int64_t{low} + 1, int64_t{high} - 1));
      }
      float tallies[3];
      TallyLevels(choice, levels, tallies);
      for (int i = 2; i >= 0; --i) {
        if (!(tallies[i] <= choice.budget)) high = levels[i];
      }
      for (int i = 0; i < 3; ++i) {
        if (levels[i] < high && tallies[i] <= choice.budget) low = levels[i];
      }
    }
    return low;
  }

  // Sets the bits of blocks with errors from `level` on.
  static void MarkFrom(const BlockChoice& choice, float level) {
    const Floats levels = Words::Set(level);
    for (int p = 0; p < choice.panel_count; ++p) {
      const Floats errors = Words::Load(choice.errors + p * kLanes);
      const uint32_t bits = ~Words::Bits(Words::Less(errors, levels)) & 0xffffU;
      choice.chosen[p] = static_cast<uint16_t>(choice.chosen[p] | bits);
    }
  }

  static void ChooseBlocks(const BlockChoice& choice) {
    if (choice.error_sum <= choice.budget) return;
    const int blocks = choice.panel_count * kLanes;
    const uint32_t top = LevelOf(choice.error_max) + 1;
    // All blocks below this level together have a sixteenth of the budget.
    const uint32_t low = LevelOf(choice.budget / static_cast<float>(16 * blocks));
    // Rows that stand together choose much alike.
    const int64_t base = LevelOf(choice.budget);
    const int64_t guess = base + *choice.level_guess;
    const uint32_t level =
        SearchLevel(choice, std::min(low, top - 1), top, {guess - 3, guess, guess + 3});
    *choice.level_guess = static_cast<int32_t>(int64_t{level} - base);
    MarkFrom(choice, FromLevel(level));
  }

  static BlockTotals DropBlocks(const BlockDrop& drop) {
    Floats weight_sums = Words::Zero();
    Floats error_sums = Words::Zero();
    Floats largest = Words::Zero();
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
      largest = Words::Larger(error, largest);
    }
    return {Words::FoldLanes(weight_sums), Words::FoldLanes(error_sums),
            Words::LargestLane(largest), 0};
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
