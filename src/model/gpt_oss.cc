// The gpt-oss family: sinks, biases everywhere, clamped experts, every other layer windowed.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 3> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 19> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQuery, "attn_q.weight"},
    {TensorRole::kKey, "attn_k.weight"},
    {TensorRole::kValue, "attn_v.weight"},
    {TensorRole::kQueryBias, "attn_q.bias"},
    {TensorRole::kKeyBias, "attn_k.bias"},
    {TensorRole::kValueBias, "attn_v.bias"},
    {TensorRole::kSinkLogits, "attn_sinks.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kAttentionOutputBias, "attn_output.bias"},
    // The files' name says what it follows; the stream goes through it to the experts.
    {TensorRole::kFeedForwardNorm, "post_attention_norm.weight"},
    {TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorRole::kRouterBias, "ffn_gate_inp.bias"},
    {TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorRole::kExpertGateBias, "ffn_gate_exps.bias"},
    {TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorRole::kExpertUpBias, "ffn_up_exps.bias"},
    {TensorRole::kExpertDown, "ffn_down_exps.weight"},
    {TensorRole::kExpertDownBias, "ffn_down_exps.bias"},
}};

constexpr Family GptOss(bool yarn_range_is_whole, const Family* as_llama_cpp) {
  return {
      .architecture = "gpt-oss",
      .globals = kGlobals,
      .layer = kLayer,
      .rope_pairing = RopePairing::kHalves,
      .gate = GateKind::kClampedSwiglu,
      // The chosen experts' softmax is that of all of them, renormalised.
      .renormalise_gates = true,
      .windows = Windows::kRequired,
      .window_period = 2,
      .yarn_range_is_whole = yarn_range_is_whole,
      .as_llama_cpp = as_llama_cpp,
  };
}

constexpr Family kAsLlamaCpp = GptOss(true, nullptr);

}  // namespace

// The published configuration says "truncate": false of YaRN's range.
extern const Family kGptOssFamily;
constexpr Family kGptOssFamily = GptOss(false, &kAsLlamaCpp);

}  // namespace remontoir
