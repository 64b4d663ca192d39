// The llama family: Llama 1-3, SmolLM, Mistral, and Mixtral, whose files differ by having experts.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 4> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
    {TensorRole::kRopeFactors, "rope_freqs.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 17> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kQueryBias, "attn_q.bias", Need::kOptional},
    {TensorRole::kKeyBias, "attn_k.bias", Need::kOptional},
    {TensorRole::kValueBias, "attn_v.bias", Need::kOptional},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kAttentionOutputBias, "attn_output.bias", Need::kOptional},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
}};

}  // namespace

extern const Family kLlamaFamily;
constexpr Family kLlamaFamily = {
    .architecture = "llama",
    .globals = kGlobals,
    .layer = kLayer,
    // The files' query and key rows are permuted so that neighbouring values form a pair.
    .rope_pairing = RopePairing::kInterleaved,
    .gate = GateKind::kSilu,
    .renormalise_gates = true,
};

}  // namespace remontoir
