// The gemma2 family: caps of scores and logits, post-norms, every other layer windowed.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 11> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kAttentionPostNorm, "post_attention_norm.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kFeedForwardPostNorm, "post_ffw_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
}};

}  // namespace

extern const Family kGemma2Family;
constexpr Family kGemma2Family = {
    .architecture = "gemma2",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kGeluTanh,
    .embedding_times_root_width = true,
    .layers_of_odd_query_scale = 46,  // 27B
    .attention_soft_cap = 50,
    .logit_soft_cap = 30,
    .windows = Windows::kRequired,
    .window_period = 2,
};

}  // namespace remontoir
