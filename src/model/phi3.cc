// The phi3 family (Phi-3, Phi-4): fused projections.
#include <array>

#include "model/family.h"

namespace remontoir {
namespace {

constexpr std::array<TensorName, 5> kGlobals = {{
    {TensorRole::kTokenEmbedding, "token_embd.weight"},
    {TensorRole::kOutputNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight", Need::kOptional},
    {TensorRole::kLongRopeFactors, "rope_factors_long.weight", Need::kOptional},
    {TensorRole::kShortRopeFactors, "rope_factors_short.weight", Need::kOptional},
}};

constexpr std::array<TensorName, 6> kLayer = {{
    {TensorRole::kAttentionNorm, "attn_norm.weight"},
    {TensorRole::kQueryKeyValue, "attn_qkv.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight"},
    {TensorRole::kFeedForwardNorm, "ffn_norm.weight"},
    {TensorRole::kGateUp, "ffn_up.weight"},
    {TensorRole::kDown, "ffn_down.weight"},
}};

}  // namespace

extern const Family kPhi3Family;
constexpr Family kPhi3Family = {
    .architecture = "phi3",
    .globals = kGlobals,
    .layer = kLayer,
    .rope_pairing = RopePairing::kHalves,
    .gate = GateKind::kSilu,
    // Of every layer; Phi-4's files say 0.
    .windows = Windows::kOptional,
};

}  // namespace remontoir
