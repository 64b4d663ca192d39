// The gemma3 family: q/k norms, post-norms, five windowed layers to each global one.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 13> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kQueryNorm, "attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "attn_k_norm.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kAttentionPostNorm, "post_attention_norm.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kFeedForwardPostNorm, "post_ffw_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
}};

}  // namespace

extern const Family kGemma3Family;
constexpr Family kGemma3Family = {
    .architecture = "gemma3",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kGeluTanh,
    .embedding_times_root_width = true,
    .layers_of_odd_query_scale = 62,  // 27B
    .windows = Windows::kRequired,
    .window_period = 6,
    .windowed_rope_base = 10000,
};

}  // namespace remontoir
