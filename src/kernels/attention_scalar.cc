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

// A row on its way along its keys.
struct Softmax {
  float factor;  // from a dot product, or what the cap makes of it, to a score in log2 units
  float reference = kNoScore;
  float offset = 0;
  bool settled = false;
  float lanes[scalar::kLanes] = {};  // sums of weights
};

// The dot products of keys [begin, end) of a tile.
template <DType kType>
void Dots(const AttentionPartial& partial, const AttentionRow& row, const Places& places, int begin,
          int end, float* dots) {
  for (int key = begin; key < end; ++key) {
    dots[key] = kType == DType::kQ8_0
                    ? ScaledDot(partial, row.query, places[key])
                    : Dot<kType>(partial, row.query, places[key], 0, partial.key_width);
    if (partial.soft_cap != 0) {
      dots[key] = scalar::Tanh(dots[key] * (partial.scale / partial.soft_cap));
    }
  }
}

// Turns the dot products of keys [begin, end) into weights and returns the factor that brings older
// sums to their reference.
float Weigh(int begin, int end, float* dots, Softmax* row) {
  const auto biased = [&](int key) { return std::fma(dots[key], row->factor, row->offset); };
  bool high = !row->settled;
  for (int key = begin; key < end; ++key) high |= biased(key) > scalar::kSoftmaxBiasedMax;
  float rescale = 1;
  bool far = false;
  if (high) {
    float largest = kNoScore;
    for (int key = begin; key < end; ++key) largest = std::max(largest, dots[key] * row->factor);
    const scalar::SoftmaxReference moved = scalar::MoveReference(row->reference, largest);
    row->reference = moved.reference;
    row->offset = moved.offset;
    row->settled = moved.settled;
    rescale = moved.rescale;
    far = moved.far;
  }
  float lanes[scalar::kLanes] = {};
  for (int key = begin; key < end; ++key) {
    dots[key] = far ? scalar::Exp2(dots[key] * row->factor - row->reference)
                    : scalar::SoftmaxWeight(dots[key], row->factor, row->offset, biased(key));
    lanes[key % scalar::kLanes] += dots[key];
  }
  for (int i = 0; i < scalar::kLanes; ++i) {
    row->lanes[i] = std::fma(row->lanes[i], rescale, lanes[i]);
  }
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
             int32_t first, Softmax* softmax, float* sum) {
  const int begin = std::clamp(row.key_begin - first, 0, kKvPageTokens);
  const int end = std::clamp(row.key_end - first, 0, kKvPageTokens);
  if (begin >= end) return;
  float weights[kKvPageTokens];
  Dots<kType>(partial, row, places, begin, end, weights);
  const float rescale = Weigh(begin, end, weights, softmax);
  Accumulate<kType>(partial, places, begin, end, weights, rescale, sum);
}

template <DType kType>
void Partial(const AttentionPartial& partial) {
  for (int r = 0; r < partial.row_count; ++r) {
    const AttentionRow& row = partial.rows[r];
    const float scale = partial.soft_cap == 0 ? partial.scale : partial.soft_cap;
    Softmax softmax = {.factor = scale * scalar::kLog2E * row.score_factor};
    float* sum = partial.sums + static_cast<int64_t>(r) * partial.value_width;
    std::fill_n(sum, partial.value_width, 0.0F);
    if (partial.panels != nullptr) {
      for (int p = 0; p < partial.panel_count; p += kTilePanels) {
        RunTile<kType>(partial, row, Places(partial.panels + p),
                       (partial.panel_begin + p) * kKvPanelKeys, &softmax, sum);
      }
    }
    for (int b = 0; b < partial.block_count && partial.panels == nullptr; ++b) {
      const KeyBlock& block = partial.blocks[b];
      RunTile<kType>(partial, row, Places(block), block.block * kKvPageTokens, &softmax, sum);
    }
    partial.states[r] = {softmax.reference, scalar::FoldLanes(softmax.lanes)};
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

void FinishRows(const SoftmaxState* states, const float* sums, int rows, int value_width,
                const float* sink_logits, float* out) {
  for (int r = 0; r < rows; ++r, sums += value_width, out += value_width) {
    const float* sink = sink_logits == nullptr ? nullptr : sink_logits + r;
    const float factor = scalar::FinishFactor(states[r].max, states[r].sum, sink);
    for (int d = 0; d < value_width; ++d) out[d] = sums[d] * factor;
  }
}

}  // namespace

void InstallScalarAttention(KernelTable* table) {
  table->attention_partial[static_cast<size_t>(DType::kF32)] = &Partial<DType::kF32>;
  table->attention_partial[static_cast<size_t>(DType::kF16)] = &Partial<DType::kF16>;
  table->attention_partial[static_cast<size_t>(DType::kBF16)] = &Partial<DType::kBF16>;
  table->attention_partial[static_cast<size_t>(DType::kQ8_0)] = &Partial<DType::kQ8_0>;
  table->merge_partial = &MergePartial;
  table->finish_rows = &FinishRows;
}

}  // namespace remontoir
