// The deepseek2 family: DeepSeek-V2, V3 and R1, with latent attention and many small experts.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 23> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kQueryDown, "attn_q_a.weight"},
    {TensorRole::kQueryDownNorm, "attn_q_a_norm.weight"},
    {TensorRole::kQueryUp, "attn_q_b.weight"},
    {TensorRole::kKeyValueDown, "attn_kv_a_mqa.weight"},
    {TensorRole::kKeyValueDownNorm, "attn_kv_a_norm.weight"},
    {TensorRole::kKeyValueUp, "attn_kv_b.weight"},
    {TensorRole::kKeyUp, "attn_k_b.weight"},
    {TensorRole::kValueUp, "attn_v_b.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kChoiceBias, "exp_probs_b.bias", Need::kOptional},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
    {TensorRole::kSharedExpertGate, "ffn_gate_shexp.weight"},
    {TensorRole::kSharedExpertUp, "ffn_up_shexp.weight"},
    {TensorRole::kSharedExpertDown, "ffn_down_shexp.weight"},
}};

}  // namespace

extern const Family kDeepSeek2Family;
constexpr Family kDeepSeek2Family = {
    .architecture = "deepseek2",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kInterleaved,
    .gate = GateKind::kSilu,
    .renormalise_gates = false,
};

}  // namespace remontoir
