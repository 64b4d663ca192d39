// Attention one row and one key at a time: the definition of the order of arithmetic.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/install.h"
#include "kernels/math_scalar.h"
#include "tensor/half.h"

namespace remontoir {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

template <DType kType>
float Element(const std::byte* at, int64_t index) {
  if constexpr (kType == DType::kF32) {
    float value;
    std::memcpy(&value, at + 4 * index, 4);
    return value;
  } else if constexpr (kType == DType::kQ8_0) {
    return static_cast<int8_t>(at[index]);
  } else {
    uint16_t bits;
    std::memcpy(&bits, at + 2 * index, 2);
    return kType == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
  }
}

// The scale of a key's or value's block in a q8_0 part.
float Scale(const std::byte* part, int width, int block, int slot) {
  return Element<DType::kF16>(part + KvScalesOffset(width),
                              static_cast<int64_t>(block) * kKvPageTokens + slot);
}

// A key's place: keys and values of its page, and the token there.
struct Place {
  const std::byte* keys;
  const std::byte* values;
  int slot;
};

// Places of the 64 keys that are computed together: one page, or panels of any.
class Places {
 public:
  explicit Places(const KeyBlock& page) : page_(&page) {}
  explicit Places(const KeyPanel* panels) : panels_(panels) {}

  Place operator[](int key) const {
    if (page_ != nullptr) return {page_->keys, page_->values, key};
    const KeyPanel& panel = panels_[key / kKvPanelKeys];
    return {panel.keys, panel.values, panel.slot + key % kKvPanelKeys};
  }

 private:
  const KeyBlock* page_ = nullptr;
  const KeyPanel* panels_ = nullptr;
};

// The products of elements [begin, end) of a key, in order.
template <DType kType>
float Dot(const AttentionPartial& partial, const float* query, const Place& place, int begin,
          int end) {
  const int64_t panel = static_cast<int64_t>(place.slot / kKvPanelKeys) * partial.key_width;
  float dot = 0;
  for (int d = begin; d < end; ++d) {
    const int64_t index = (panel + d) * kKvPanelKeys + place.slot % kKvPanelKeys;
    dot = std::fma(query[d], Element<kType>(place.keys, index), dot);
  }
  return dot;
}

// Of a q8_0 key: scale times the block's dot product, blocks in order.
float ScaledDot(const AttentionPartial& partial, const float* query, const Place& place) {
  float dot = 0;
  for (int d = 0; d < partial.key_width; d += kKvScaleBlock) {
    const int end = std::min(d + kKvScaleBlock, partial.key_width);
    const float scale = Scale(place.keys, partial.key_width, d / kKvScaleBlock, place.slot);
    dot = std::fma(scale, Dot<DType::kQ8_0>(partial, query, place, d, end), dot);
  }
  return dot;
}

// The scores of keys [begin, end) of a tile, in log2 units.
template <DType kType>
void Scores(const AttentionPartial& partial, const AttentionRow& row, const Places& places,
            int begin, int end, float* scores) {
  const float* query = row.query;
  const float factor = partial.soft_cap == 0 ? partial.scale * scalar::kLog2E * row.score_factor
                                             : partial.scale / partial.soft_cap;
  for (int key = begin; key < end; ++key) {
    const float dot = kType == DType::kQ8_0
                          ? ScaledDot(partial, query, places[key])
                          : Dot<kType>(partial, query, places[key], 0, partial.key_width);
    float score = dot * factor;
    if (partial.soft_cap != 0) {
      score = scalar::Tanh(score) * (partial.soft_cap * scalar::kLog2E * row.score_factor);
    }
    scores[key] = score;
  }
}

// Turns the scores of keys [begin, end) into weights, moves the state to the new maximum and
// returns the factor that brings older sums there.
float Weigh(int begin, int end, float* scores, SoftmaxState* state) {
  float max = state->max;
  for (int key = begin; key < end; ++key) max = std::max(max, scores[key]);
  // Scores that are all minus infinity weigh nothing.
  const float reference = max == kNoScore ? 0.0F : max;
  float lanes[scalar::kLanes] = {};
  for (int key = begin; key < end; ++key) {
    scores[key] = scalar::Exp2(scores[key] - reference);
    lanes[key % scalar::kLanes] += scores[key];
  }
  const float rescale = scalar::Exp2(state->max - reference);
  state->sum = std::fma(state->sum, rescale, scalar::FoldLanes(lanes));
  state->max = max;
  return rescale;
}

// A q8_0 value's scale goes into its weight first.
template <DType kType>
void Accumulate(const AttentionPartial& partial, const Places& places, int begin, int end,
                const float* weights, float rescale, float* sum) {
  for (int d = 0; d < partial.value_width; ++d) {
    float value = sum[d] * rescale;
    for (int key = begin; key < end; ++key) {
      const Place place = places[key];
      const int64_t index = static_cast<int64_t>(place.slot) * partial.value_width + d;
      float weight = weights[key];
      if constexpr (kType == DType::kQ8_0) {
        weight *= Scale(place.values, partial.value_width, d / kKvScaleBlock, place.slot);
      }
      value = std::fma(weight, Element<kType>(place.values, index), value);
    }
    sum[d] = value;
  }
}

// A row against the tile of 64 keys from `first` on.
template <DType kType>
void RunTile(const AttentionPartial& partial, const AttentionRow& row, const Places& places,
             int32_t first, SoftmaxState* state, float* sum) {
  const int begin = std::clamp(row.key_begin - first, 0, kKvPageTokens);
  const int end = std::clamp(row.key_end - first, 0, kKvPageTokens);
  if (begin >= end) return;
  float weights[kKvPageTokens];
  Scores<kType>(partial, row, places, begin, end, weights);
  const float rescale = Weigh(begin, end, weights, state);
  Accumulate<kType>(partial, places, begin, end, weights, rescale, sum);
}

template <DType kType>
void Partial(const AttentionPartial& partial) {
  for (int r = 0; r < partial.row_count; ++r) {
    const AttentionRow& row = partial.rows[r];
    SoftmaxState& state = partial.states[r];
    float* sum = partial.sums + static_cast<int64_t>(r) * partial.value_width;
    state = {};
    std::fill_n(sum, partial.value_width, 0.0F);
    if (partial.panels != nullptr) {
      for (int p = 0; p < partial.panel_count; p += kTilePanels) {
        RunTile<kType>(partial, row, Places(partial.panels + p),
                       (partial.panel_begin + p) * kKvPanelKeys, &state, sum);
      }
      continue;
    }
    for (int b = 0; b < partial.block_count; ++b) {
      const KeyBlock& block = partial.blocks[b];
      RunTile<kType>(partial, row, Places(block), block.block * kKvPageTokens, &state, sum);
    }
  }
}

void MergePartial(const SoftmaxState& partial, const float* partial_sum, int value_width,
                  SoftmaxState* state, float* sum) {
  if (partial.sum == 0) return;  // no key seen; a NaN goes on
  const float max = std::max(state->max, partial.max);
  const float old_factor = scalar::Exp2(state->max - max);
  const float new_factor = scalar::Exp2(partial.max - max);
  for (int d = 0; d < value_width; ++d) {
    sum[d] = std::fma(partial_sum[d], new_factor, sum[d] * old_factor);
  }
  state->sum = std::fma(partial.sum, new_factor, state->sum * old_factor);
  state->max = max;
}

void FinishRow(const SoftmaxState& state, const float* sum, int value_width,
               const float* sink_logit, float* out) {
  float factor = 1;
  float total = state.sum;
  if (sink_logit != nullptr) {
    const float sink = *sink_logit * scalar::kLog2E;
    const float max = std::max(state.max, sink);
    factor = scalar::Exp2(state.max - max);
    total = std::fma(total, factor, scalar::Exp2(sink - max));
  }
  factor = total == 0 ? 0.0F : factor / total;
  for (int d = 0; d < value_width; ++d) out[d] = sum[d] * factor;
}

}  // namespace

void InstallScalarAttention(KernelTable* table) {
  table->attention_partial[static_cast<size_t>(DType::kF32)] = &Partial<DType::kF32>;
  table->attention_partial[static_cast<size_t>(DType::kF16)] = &Partial<DType::kF16>;
  table->attention_partial[static_cast<size_t>(DType::kBF16)] = &Partial<DType::kBF16>;
  table->attention_partial[static_cast<size_t>(DType::kQ8_0)] = &Partial<DType::kQ8_0>;
  table->merge_partial = &MergePartial;
  table->finish_row = &FinishRow;
}

}  // namespace remontoir
