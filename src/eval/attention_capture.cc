// Looks on while the backend runs.
#include "eval/attention_capture.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/attention_batch.h"
#include "tensor/kv_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

float ElementAt(const std::byte* part, int64_t index) {
  float value;
  std::memcpy(&value, part + index * static_cast<int64_t>(sizeof(float)), sizeof(float));
  return value;
}

// A token's keys and values of all heads, from its page.
void AppendToken(const AttentionBatch& batch, int32_t position, CapturedAttention* captured) {
  const auto entry =
      static_cast<size_t>(int64_t{batch.page_table_begin[0]} + position / kKvPageTokens);
  const std::byte* page = batch.kv_pages.Page(batch.page_table[entry]);
  const int32_t slot = position % kKvPageTokens;
  const int64_t panel = int64_t{slot / kKvPanelKeys} * captured->key_width;
  for (int32_t head = 0; head < captured->kv_heads; ++head) {
    const std::byte* keys = page + batch.layout->key_offset(batch.layer, head);
    for (int32_t d = 0; d < captured->key_width; ++d) {
      captured->keys.push_back(ElementAt(keys, (panel + d) * kKvPanelKeys + slot % kKvPanelKeys));
    }
    const std::byte* values = page + batch.layout->value_offset(batch.layer, head);
    for (int32_t d = 0; d < captured->value_width; ++d) {
      captured->values.push_back(ElementAt(values, int64_t{slot} * captured->value_width + d));
    }
  }
}

void Reserve(size_t tokens, CapturedAttention* captured) {
  const auto values = [&](int32_t heads, int32_t width) {
    return tokens * static_cast<size_t>(heads) * static_cast<size_t>(width);
  };
  captured->queries.reserve(values(captured->heads, captured->key_width));
  captured->keys.reserve(values(captured->kv_heads, captured->key_width));
  captured->values.reserve(values(captured->kv_heads, captured->value_width));
}

// The round's, of `tokens` in all.
void Append(const AttentionBatch& batch, size_t tokens, CapturedAttention* captured) {
  const KvLayerShape& shape = batch.layout->layer(batch.layer);
  captured->heads = batch.heads;
  captured->kv_heads = shape.kv_heads;
  captured->key_width = shape.key_width;
  captured->value_width = shape.value_width;
  captured->scale = batch.scale;
  captured->soft_cap = batch.soft_cap;
  captured->window = batch.window;
  const LayerTraits traits = TraitsOf(batch);
  captured->sinks = traits.sinks;
  captured->temperature = traits.temperature;
  if (captured->tokens == 0) Reserve(tokens, captured);
  captured->queries.insert(captured->queries.end(), batch.queries.begin(), batch.queries.end());
  const auto keys = static_cast<int32_t>(batch.cu_seqlens_k[1]);
  for (; captured->tokens < keys; ++captured->tokens) {
    AppendToken(batch, captured->tokens, captured);
  }
}

}  // namespace

Result<std::vector<CapturedAttention>> CaptureAttention(ModelRunner& runner,
                                                        std::span<const int32_t> tokens,
                                                        std::span<const int32_t> layers) {
  const auto count = static_cast<int32_t>(tokens.size());
  if (count > runner.limits().context_max) {
    return InvalidArgument(std::to_string(count) + " tokens, the context has " +
                           std::to_string(runner.limits().context_max));
  }
  std::vector<CapturedAttention> captured(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 0 || layers[i] >= runner.shape().layers) {
      return InvalidArgument("layer " + std::to_string(layers[i]) + " of " +
                             std::to_string(runner.shape().layers));
    }
    captured[i].layer = layers[i];
  }
  bool float32 = true;
  runner.backend().ObserveAttention([&](const AttentionBatch& batch) {
    for (CapturedAttention& one : captured) {
      if (one.layer != batch.layer) continue;
      float32 = float32 && batch.layout->layer(batch.layer).type == DType::kF32;
      if (float32) Append(batch, tokens.size(), &one);
    }
  });
  std::vector<KvPageId> pages((tokens.size() + kKvPageTokens - 1) / kKvPageTokens);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = KvPageId(static_cast<int32_t>(i));
  std::vector<SealedSegmentId> segments(static_cast<size_t>(runner.limits().sparse.segments));
  for (size_t s = 0; s < segments.size(); ++s) {
    segments[s] = SealedSegmentId(static_cast<int32_t>(s));
  }
  // Sparse rows come in whole groups.
  const int32_t rows_max =
      std::max(runner.limits().rows_max / kRowGroupPositions * kRowGroupPositions, 1);
  for (int32_t first = 0; first < count; first += rows_max) {
    const int32_t rows = std::min(rows_max, count - first);
    const BatchSequence sequence = {
        .tokens = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
        .first_position = first,
        .pages = pages,
        .logits_begin = rows,
        .sealed = segments};
    runner.Run({&sequence, 1});
  }
  runner.backend().ObserveAttention(nullptr);
  if (!float32) return Unsupported("capturing attention from pages that aren't float32");
  return captured;
}

}  // namespace remontoir
