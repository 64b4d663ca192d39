// The grok family: Grok-1, and Grok-2, whose files differ by dense blocks beside the experts.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 15> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kAttentionPostNorm, "attn_output_norm.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kFeedForwardPostNorm, "layer_output_norm.weight", Need::kRequired,
     "post_ffw_norm.weight"},
    {TensorRole::kGate, "ffn_gate.weight"},
    {TensorRole::kUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
}};

// Converters write Grok-2's rope_type "original" as YaRN; the authors' engine leaves the
// frequencies as they are.
constexpr std::array<std::string_view, 1> kUnreadKeys = {"rope.scaling.type"};

// What llama.cpp reads from the file and doesn't apply.
constexpr std::array<std::string_view, 2> kUnreadByLlamaCpp = {"router_logit_softcapping",
                                                               "attention.temperature_length"};

// Grok-1's numbers, which its files lack: sqrt(6144), 1 / sqrt(3), 1 / sqrt(128).
constexpr Family Grok(bool renormalise_gates, std::span<const std::string_view> unread_keys,
                      const Family* as_llama_cpp) {
  return {
      .architecture = "grok",
      .globals = kGlobals,
      .layer = kLayer,
      .rope_pairing = RopePairing::kHalves,
      .gate = GateKind::kGeluTanh,
      .renormalise_gates = renormalise_gates,
      .dense_beside_experts = true,
      .embedding_scale = 78.38367176906169F,
      .logit_scale = 0.5773502691896257F,
      .attention_scale = 0.08838834764831845F,
      .attention_soft_cap = 30,
      .yarn_beta_fast = 8,
      .unread_keys = unread_keys,
      .as_llama_cpp = as_llama_cpp,
  };
}

constexpr Family kAsLlamaCpp = Grok(true, kUnreadByLlamaCpp, nullptr);

}  // namespace

extern const Family kGrokFamily;
constexpr Family kGrokFamily = Grok(false, kUnreadKeys, &kAsLlamaCpp);

}  // namespace remontoir
