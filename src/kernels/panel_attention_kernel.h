// Exact attention of a few rows to gathered panels of sixteen keys, in the words of an instruction
// set: the chosen blocks of sparse attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/intrinsics.h"
#include "kernels/kernel_table.h"
#include "kernels/row_tiles.h"
#include "kernels/sparse.h"
#include "kernels/vector_math.h"

namespace remontoir {

template <class Words>
class PanelAttentionKernel {
 public:
  static void Install(KernelTable* table) {
    table->attend_panels[static_cast<size_t>(DType::kF32)] = &Attend<DType::kF32>;
    table->attend_panels[static_cast<size_t>(DType::kF16)] = &Attend<DType::kF16>;
    table->attend_panels[static_cast<size_t>(DType::kBF16)] = &Attend<DType::kBF16>;
  }

 private:
  using Floats = typename Words::Floats;
  using Math = VectorMath<Words>;
  using Tiles = RowTiles<Words>;

  static constexpr int kLanes = scalar::kLanes;
  // Panels whose scores move a row's maximum together: part of what a row's bits are.
  static constexpr int kStepPanels = 8;
  static constexpr int kStepKeys = kStepPanels * kLanes;
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  template <DType kType>
  static constexpr int64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  // Up to kStepPanels panels, and what the rows of a tile make of them.
  struct Step {
    const SealedPanel* panels;
    int count;
    const SealedPanel* ahead;  // the panels of the next step, as many; at the end the same ones
    float rescale[Words::kTileRowsMax];
    alignas(64) float weights[Words::kTileRowsMax][kStepKeys];
  };

  // Never faults, whatever the address.
  static void Prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }

  // Scores of rows [row, row + kRows) with the keys of panels [panel, panel + kCount) of the step.
  template <DType kType, int kRows, int kCount>
  [[gnu::noinline]] static void Dots(const PanelAttention& attention, int row, int panel,
                                     Step* step) {
    // The panels' values are asked for while their keys are read.
    const std::byte* keys[kCount];
    const std::byte* values[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      keys[v] = step->panels[panel + v].keys;
      values[v] = step->panels[panel + v].values;
    }
    const float* queries[kRows];
    Floats dots[kRows][kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      queries[r] = attention.queries + static_cast<int64_t>(row + r) * attention.key_width;
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) dots[r][v] = Words::Zero();
    }
    const int64_t width = attention.key_width;
    constexpr int64_t kVectorsPerLine = 4 / kElementBytes<kType>;
#pragma GCC unroll 4
    for (int64_t d = 0; d < width; ++d) {
      if (d % kVectorsPerLine == 0) {
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) Prefetch(values[v] + d * kLanes * kElementBytes<kType>);
      }
      Tiles::template MultiplyAdd<kType, kRows, kCount>(
          [&](int r) { return Words::SetFrom(queries[r] + d); },
          [&](int v) { return keys[v] + d * kLanes * kElementBytes<kType>; }, dots);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        Words::Store(step->weights[r] + (panel + v) * kLanes, dots[r][v]);
      }
    }
  }

  // Turns the scores of a row into weights and moves its state to the new maximum.
  static void Weigh(int r, SoftmaxState* state, Step* step) {
    float* weights = step->weights[r];
    Floats largest = Words::Set(kNoScore);
    for (int p = 0; p < step->count; ++p) {
      largest = Words::Larger(Words::Load(weights + p * kLanes), largest);
    }
    const float max = std::max(state->max, Words::LargestLane(largest));
    const float reference = max == kNoScore ? 0.0F : max;
    const Floats references = Words::Set(reference);
    Floats lanes = Words::Zero();
    for (int p = 0; p < step->count; ++p) {
      const Floats score = Words::Load(weights + p * kLanes);
      const Floats weight = Math::Exp2UpToZero(Words::Subtract(score, references));
      Words::Store(weights + p * kLanes, weight);
      lanes = Words::Add(lanes, weight);
    }
    // 2^0 is 1: mostly the maximum stays where it is.
    const float rescale = state->max == reference ? 1.0F : scalar::Exp2(state->max - reference);
    state->sum = std::fma(state->sum, rescale, Words::FoldLanes(lanes));
    state->max = max;
    step->rescale[r] = rescale;
  }

  // Columns [column, column + 16 * kCount) of sums = sums * rescale + weights * values; with
  // kCount = 1 the first `count` of them.
  template <DType kType, int kRows, int kCount>
  [[gnu::noinline]] static void AddColumns(const PanelAttention& attention, int row, int column,
                                           int64_t count, const Step& step) {
    const int64_t width = attention.value_width;
    float* out = attention.sums + row * width + column;
    Floats sums[kRows][kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats rescale = Words::Set(step.rescale[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        const float* at = out + r * width + v * kLanes;
        const Floats sum = kCount == 1 ? Words::LoadFirst(at, count) : Words::Load(at);
        sums[r][v] = Words::Multiply(sum, rescale);
      }
    }
    const int64_t row_bytes = width * kElementBytes<kType>;
    const float* weights = step.weights[0];
    for (int p = 0; p < step.count; ++p) {
      const std::byte* at = step.panels[p].values + column * kElementBytes<kType>;
      // The next step's keys: this run of columns asks for its share.
      const std::byte* ahead = step.ahead[p].keys + column * kLanes * kElementBytes<kType>;
#pragma GCC unroll 4
      for (int key = 0; key < kLanes; ++key, at += row_bytes, ++weights) {
        for (int64_t byte = 0; byte < kCount * kLanes * kElementBytes<kType>; byte += 64) {
          Prefetch(ahead + key * kCount * kLanes * kElementBytes<kType> + byte);
        }
        Tiles::template MultiplyAdd<kType, kRows, kCount>(
            [&](int r) { return Words::SetFrom(weights + r * kStepKeys); },
            [&](int v) { return at + v * kLanes * kElementBytes<kType>; }, sums);
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

  // The last column run of a width that is no multiple of 16, value by value: sixteen elements
  // there could lie outside the memory.
  template <DType kType>
  static void AddTail(const PanelAttention& attention, int row, int rows, int column,
                      const Step& step) {
    const int width = attention.value_width;
    for (int r = 0; r < rows; ++r) {
      float* out = attention.sums + static_cast<int64_t>(row + r) * width;
      for (int d = column; d < width; ++d) {
        float sum = out[d] * step.rescale[r];
        for (int key = 0; key < step.count * kLanes; ++key) {
          const std::byte* values = step.panels[key / kLanes].values;
          const int64_t index = static_cast<int64_t>(key % kLanes) * width + d;
          sum = std::fma(step.weights[r][key], Tiles::template LoadOne<kType>(values, index), sum);
        }
        out[d] = sum;
      }
    }
  }

  template <DType kType, int kRows>
  static void RunTile(const PanelAttention& attention, int row, Step* step) {
    constexpr int kCount = Tiles::SixteensOf(kRows);
    int panel = 0;
    for (; panel + kCount <= step->count; panel += kCount) {
      Dots<kType, kRows, kCount>(attention, row, panel, step);
    }
    for (; panel < step->count; ++panel) Dots<kType, kRows, 1>(attention, row, panel, step);
    for (int r = 0; r < kRows; ++r) Weigh(r, attention.states + row + r, step);
    int column = 0;
    if constexpr (kCount > 1) {
      for (; column + kLanes * kCount <= attention.value_width; column += kLanes * kCount) {
        AddColumns<kType, kRows, kCount>(attention, row, column, kLanes, *step);
      }
    }
    for (; column + kLanes <= attention.value_width; column += kLanes) {
      AddColumns<kType, kRows, 1>(attention, row, column, kLanes, *step);
    }
    AddTail<kType>(attention, row, kRows, column, *step);
  }

  template <DType kType>
  static void Attend(const PanelAttention& attention) {
    Step step;
    for (int first = 0; first < attention.panel_count; first += kStepPanels) {
      step.panels = attention.panels + first;
      step.count = std::min(kStepPanels, attention.panel_count - first);
      const bool last = first + 2 * kStepPanels > attention.panel_count;
      step.ahead = last ? step.panels : step.panels + kStepPanels;
      Tiles::ForEach(attention.row_count, [&](int row, auto height) {
        RunTile<kType, decltype(height)::value>(attention, row, &step);
      });
    }
  }
};

}  // namespace remontoir
