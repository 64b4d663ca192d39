// Runs given tokens through a model and shows each row's logits: no sampling, no scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model_runner.h"

namespace remontoir {

// The logits after tokens[position]; valid during the call.
using LogitsVisitor = std::function<void(int32_t position, std::span<const float> logits)>;

// Feeds `tokens` as one sequence in pages 0, 1, ... of the runner's backend (which nobody else uses
// meanwhile), rows_per_round at a time. Logits are shown for positions >= logits_begin. Bits don't
// depend on rows_per_round.
void RunTeacherForced(ModelRunner& runner, std::span<const int32_t> tokens, int32_t rows_per_round,
                      int32_t logits_begin, const LogitsVisitor& visit);

// -ln p(tokens[i] | tokens before) for i = 1 ... n - 1, in one context.
std::vector<double> NegativeLogLikelihoods(ModelRunner& runner, std::span<const int32_t> tokens);

// exp of the mean of NegativeLogLikelihoods.
double Perplexity(std::span<const double> negative_log_likelihoods);

}  // namespace remontoir
