// Seals come before the tokens that need them, and cost time like they do.
#include "scheduler/sealing.h"

#include <algorithm>

#include "tensor/sealed_layout.h"

namespace remontoir {

int32_t SealsOwed(const SequenceState& sequence, const SealingRules& rules, int32_t tokens) {
  if (!sequence.sparse) return 0;
  const SequenceProgress& progress = sequence.progress;
  const int32_t due = SealsDue(progress.tokens_computed + tokens, rules.layers);
  return std::max(0, due - progress.seals_made);
}

double ShareUs(const SequenceState& sequence, const SealingRules& rules, const CostModel& costs,
               int32_t tokens) {
  return costs.PrefillUs(tokens, sequence.progress.tokens_computed) +
         costs.SealUs(SealsOwed(sequence, rules, tokens));
}

int32_t CutAtGrain(const SequenceProgress& sequence, int64_t rows) {
  const int32_t pending = sequence.tokens_pending();
  if (rows >= pending) return pending;
  if (rows <= 0) return 0;
  const int64_t end = (sequence.tokens_computed + rows) / kChunkGrain * kChunkGrain;
  return static_cast<int32_t>(std::max<int64_t>(0, end - sequence.tokens_computed));
}

PromptShare FitPrompt(const SequenceState& sequence, const SealingRules& rules,
                      const CostModel& costs, const PromptLimits& limits) {
  const SequenceProgress& progress = sequence.progress;
  const int32_t late = SealsOwed(sequence, rules, 0);
  const int64_t seals_fit =
      std::max<int64_t>(costs.SealsWithin(limits.us_max), limits.moves ? 1 : 0);
  if (late > 0 && seals_fit <= late) {
    const auto seals = static_cast<int32_t>(seals_fit);
    return {0, seals, costs.SealUs(seals)};
  }
  const auto us = [&](int32_t tokens) { return ShareUs(sequence, rules, costs, tokens); };
  const double us_left = limits.us_max - costs.SealUs(late);
  int64_t fit = costs.TokensWithin(us_left, progress.tokens_computed);
  int32_t tokens = CutAtGrain(progress, std::min<int64_t>(fit, limits.tokens_max));
  // What becomes due with all of them may not fit beside them.
  if (us(tokens) > limits.us_max + 1e-3 && SealsOwed(sequence, rules, tokens) > late) {
    int32_t fits = 0;
    for (int32_t most = tokens; most - fits > 1;) {
      const int32_t middle = fits + (most - fits) / 2;
      (us(middle) <= limits.us_max ? fits : most) = middle;
    }
    tokens = CutAtGrain(progress, fits);
  }
  if (tokens == 0 && late == 0 && limits.moves) {
    tokens = CutAtGrain(progress, std::min(kChunkGrain, limits.tokens_max));
  }
  return {tokens, SealsOwed(sequence, rules, tokens), us(tokens)};
}

DecodeSeals SealsOfDecode(const SequenceState& sequence, const SealingRules& rules) {
  const int32_t owed = SealsOwed(sequence, rules, 1);
  if (owed == 0) return {};
  const int32_t position = sequence.progress.tokens_computed;
  DecodeSeals seals;
  seals.turn = std::min(owed, (rules.layers + kLocalKeysMin - 1) / kLocalKeysMin);
  if (position >= rules.engage_at) {
    const int32_t far = FarSegments(position) * rules.layers;
    seals.needed = std::max(0, far - sequence.progress.seals_made);
    seals.wanted = std::max(seals.needed, seals.turn);
    return seals;
  }
  // So that nothing is left when its rows become sparse.
  const int32_t rows_left = rules.engage_at - position;
  seals.wanted = std::max(seals.turn, (owed + rows_left - 1) / rows_left);
  return seals;
}

}  // namespace remontoir
