// The qwen2moe family: many small experts, and a shared one behind a gate of its own.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 17> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kQueryBias, "attn_q.bias"},
    {TensorRole::kKeyBias, "attn_k.bias"},
    {TensorRole::kValueBias, "attn_v.bias"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
    {TensorRole::kSharedExpertRouter, "ffn_gate_inp_shexp.weight"},
    {TensorRole::kSharedExpertGate, "ffn_gate_shexp.weight"},
    {TensorRole::kSharedExpertUp, "ffn_up_shexp.weight"},
    {TensorRole::kSharedExpertDown, "ffn_down_shexp.weight"},
}};

}  // namespace

extern const Family kQwen2MoeFamily;
constexpr Family kQwen2MoeFamily = {
    .architecture = "qwen2moe",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kSilu,
    .renormalise_gates = false,
};

}  // namespace remontoir
