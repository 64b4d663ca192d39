// The qwen3 family: norms of every query and key head instead of biases.
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
    {TensorRole::kQueryNorm, "attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "attn_k_norm.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
}};

}  // namespace

extern const Family kQwen3Family;
constexpr Family kQwen3Family = {
    .architecture = "qwen3",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kSilu,
};

}  // namespace remontoir
