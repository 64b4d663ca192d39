// What of a sequence is sealed for sparse attention, and what its next tokens want sealed.
#pragma once

#include <cstdint>

#include "scheduler/cost_model.h"
#include "scheduler/scheduler.h"

namespace remontoir {

// Seals that are missing when `tokens` more are computed: all that are due by then. 0: it is exact.
int32_t SealsOwed(const SequenceState& sequence, const SealingRules& rules, int32_t tokens);

// Of computing the next `tokens`, sealing included, without the round's own cost.
double ShareUs(const SequenceState& sequence, const SealingRules& rules, const CostModel& costs,
               int32_t tokens);

// What of a prompt a round takes.
struct PromptShare {
  int32_t tokens = 0;
  int32_t seals = 0;
  double us = 0;
};

struct PromptLimits {
  int32_t tokens_max = 0;  // of its next ones, as CutAtGrain cuts
  double us_max = 0;
  bool moves = false;  // it takes a step whatever the time: one seal, or a grain with its seals
};

// The longest share that takes at most us_max. What is owed for the tokens that are computed
// already is sealed first, and no further token is computed before it is.
PromptShare FitPrompt(const SequenceState& sequence, const SealingRules& rules,
                      const CostModel& costs, const PromptLimits& limits);

// What a decoding sequence seals in a round.
struct DecodeSeals {
  int32_t turn = 0;    // what falls due with a row: made whatever the round's time
  int32_t wanted = 0;  // with this round's part of what it is behind; at least `turn`
  int32_t needed = 0;  // its row waits for so many of them
};
DecodeSeals SealsOfDecode(const SequenceState& sequence, const SealingRules& rules);

// The longest share of at most `rows` next tokens that ends at the grain or at the last known
// token.
int32_t CutAtGrain(const SequenceProgress& sequence, int64_t rows);

}  // namespace remontoir
