// Log-probabilities of the model's own distribution: from raw logits, before sampling parameters.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/token_id.h"

namespace remontoir {

// What a token without any probability gets, so that every logprob is a finite number.
inline constexpr float kLogprobMin = -9999;

// A logit as it counts everywhere: NaN is -infinity (never drawn), +infinity the largest float.
float DefinedLogit(float logit);

// ln(sum of e^logit), added up in an order that depends on nothing but the vocabulary's size: the
// same row gives the same bits in prefill and in decode. 0 when every logit is -infinity.
double LogSumExp(std::span<const float> logits);

// Natural log of the token's probability; log_sum is LogSumExp of the row.
float LogprobAt(std::span<const float> logits, double log_sum, TokenId token);

// The tokens with the highest logits, best first (ties: lower id first), as many as `top` holds or
// the vocabulary has; returns how many. For short lists: time is rows + swaps.
int32_t TopTokens(std::span<const float> logits, std::span<TokenId> top);

}  // namespace remontoir
