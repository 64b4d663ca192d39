// Copies.
#include "apps/bench_attention_heads.h"

#include <numbers>
#include <vector>

#include "base/check.h"

namespace remontoir {
namespace {

// Appends values [first, first + count) of a row of `width`.
void AppendPart(const std::vector<float>& rows, int64_t row, int64_t width, int64_t first,
                int64_t count, std::vector<float>* out) {
  const float* begin = rows.data() + row * width + first;
  out->insert(out->end(), begin, begin + count);
}

class HeadCopy {
 public:
  HeadCopy(const CapturedAttention& layer, int32_t tokens) : layer_(layer) {
    REM_CHECK(tokens <= layer.tokens, "tokens that were captured");
    out.layer = layer.layer;
    out.tokens = tokens;
    out.kv_heads = 1;
    out.scale = layer.scale;
    out.soft_cap = layer.soft_cap;
    out.window = layer.window;
    out.sinks = layer.sinks;
    out.temperature = layer.temperature;
  }

  void AppendQueries(int32_t token, int32_t first_head, int32_t heads) {
    AppendPart(layer_.queries, token, int64_t{layer_.heads} * layer_.key_width,
               int64_t{first_head} * layer_.key_width, int64_t{heads} * layer_.key_width,
               &out.queries);
  }
  void AppendKv(int32_t token, int32_t head) {
    const int64_t kv_head = head / layer_.heads_per_kv();
    AppendPart(layer_.keys, token, int64_t{layer_.kv_heads} * layer_.key_width,
               kv_head * layer_.key_width, layer_.key_width, &out.keys);
    AppendPart(layer_.values, token, int64_t{layer_.kv_heads} * layer_.value_width,
               kv_head * layer_.value_width, layer_.value_width, &out.values);
  }

  CapturedAttention out;

 private:
  const CapturedAttention& layer_;
};

}  // namespace

CapturedAttention PickHeads(const CapturedAttention& layer, int32_t first_head, int32_t heads,
                            int32_t tokens) {
  const int32_t shared = layer.heads_per_kv();
  REM_CHECK(first_head / shared == (first_head + heads - 1) / shared, "heads of one KV head");
  HeadCopy copy(layer, tokens);
  copy.out.heads = heads;
  copy.out.key_width = layer.key_width;
  copy.out.value_width = layer.value_width;
  for (int32_t token = 0; token < tokens; ++token) {
    copy.AppendQueries(token, first_head, heads);
    copy.AppendKv(token, first_head);
  }
  return copy.out;
}

CapturedAttention JoinTwoHeads(const CapturedAttention& layer, int32_t head, int32_t other,
                               int32_t tokens) {
  HeadCopy copy(layer, tokens);
  copy.out.heads = 1;
  copy.out.key_width = 2 * layer.key_width;
  copy.out.value_width = 2 * layer.value_width;
  copy.out.scale = layer.scale / std::numbers::sqrt2_v<float>;
  for (int32_t token = 0; token < tokens; ++token) {
    for (const int32_t one : {head, other}) {
      copy.AppendQueries(token, one, 1);
      copy.AppendKv(token, one);
    }
  }
  return copy.out;
}

}  // namespace remontoir
