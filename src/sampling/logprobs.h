// Log-probabilities of the model's own distribution: from raw logits, before sampling parameters.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

#include "sampling/token_id.h"

namespace remontoir {

// What a token without any probability gets, so that every logprob is a finite number.
inline constexpr float kLogprobMin = -9999;

// The logit of a token that can't be drawn beside any other: NaN and -infinity count as this.
inline constexpr float kImpossibleLogit = -std::numeric_limits<float>::max();

// A logit as it counts everywhere: a finite number, +infinity the largest one. Tells them apart by
// their bits: comparisons of integers are what compilers turn into vectors.
inline float DefinedLogit(float logit) {
  constexpr auto kInfinity = std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
  constexpr auto kGreatest = std::bit_cast<int32_t>(std::numeric_limits<float>::max());
  constexpr auto kImpossible = std::bit_cast<int32_t>(kImpossibleLogit);
  const auto bits = std::bit_cast<int32_t>(logit);
  const int32_t odd = bits == kInfinity ? kGreatest : kImpossible;
  return std::bit_cast<float>((bits & 0x7fffffff) < kInfinity ? bits : odd);
}

// The greatest DefinedLogit.
float GreatestLogit(std::span<const float> logits);

// ln(sum of e^logit), added up in an order that depends on nothing but the vocabulary's size: the
// same row gives the same bits in prefill and in decode.
double LogSumExp(std::span<const float> logits);

// Natural log of the token's probability; log_sum is LogSumExp of the row.
float LogprobAt(std::span<const float> logits, double log_sum, TokenId token);

// The tokens with the highest logits, best first (ties: lower id first), as many as `top` holds or
// the vocabulary has; returns how many. For short lists: time is rows + swaps.
int32_t TopTokens(std::span<const float> logits, std::span<TokenId> top);

}  // namespace remontoir
