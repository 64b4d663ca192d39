// The qwen3moe family: qwen3's attention, and experts in every layer.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 12> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kQueryNorm, "attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "attn_k_norm.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
}};

}  // namespace

extern const Family kQwen3MoeFamily;
constexpr Family kQwen3MoeFamily = {
    .architecture = "qwen3moe",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kSilu,
    .renormalise_gates = true,
};

}  // namespace remontoir
