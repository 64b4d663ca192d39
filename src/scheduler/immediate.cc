// The policy `immediate`.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace remontoir {
namespace {

int32_t Admissible(const SchedulerState& state) {
  const auto slots = static_cast<size_t>(state.slots_free);
  int32_t pages = state.pages_free;
  size_t admitted = 0;
  while (admitted < std::min(slots, state.waiting.size()) &&
         state.waiting[admitted].pages <= pages) {
    pages -= state.waiting[admitted].pages;
    ++admitted;
  }
  return static_cast<int32_t>(admitted);
}

// The longest share of at most `rows` next tokens that ends at the grain or at the last known
// token.
int32_t CutAtGrain(const SequenceProgress& sequence, int64_t rows) {
  const int32_t pending = sequence.tokens_known - sequence.tokens_computed;
  if (rows >= pending) return pending;
  if (rows <= 0) return 0;
  const int64_t end = (sequence.tokens_computed + rows) / kChunkGrain * kChunkGrain;
  return static_cast<int32_t>(std::max<int64_t>(0, end - sequence.tokens_computed));
}

int32_t LogitRows(const SequenceProgress& sequence, int32_t tokens) {
  const int32_t end = sequence.tokens_computed + tokens;
  return std::max(0, end - std::max(sequence.logits_begin, sequence.tokens_computed));
}

// How many next tokens bring at most `logit_rows` wanted rows.
int64_t RowsWithin(const SequenceProgress& sequence, int64_t logit_rows) {
  const int64_t unwanted = std::max(0, sequence.logits_begin - sequence.tokens_computed);
  return unwanted + logit_rows;
}

void AddDecoders(const SchedulerState& state, Round& round) {
  for (size_t i = 0; i < state.running.size(); ++i) {
    const SequenceProgress& sequence = state.running[i];
    if (!sequence.decoding() || sequence.events_room < 1) continue;
    round.shares.push_back({static_cast<int32_t>(i), 1});
    ++round.decode_rows;
  }
}

void AddPrefill(const SchedulerState& state, Round& round) {
  const int64_t in_window = state.cost.PrefillTokensWithin(round.window_us, round.decode_rows);
  int64_t tokens_left = std::min<int64_t>(state.bounds.tokens_max - round.decode_rows,
                                          std::max<int64_t>(in_window, kChunkGrain));
  int64_t logit_rows_left = state.bounds.logit_rows_max - round.decode_rows;
  const auto running = static_cast<int32_t>(state.running.size());
  for (int32_t i = 0; i < running + round.admitted; ++i) {
    const SequenceProgress& sequence =
        i < running ? state.running[i] : state.waiting[i - running].progress;
    if (sequence.decoding()) continue;
    const int64_t answers = std::min<int64_t>(logit_rows_left, sequence.events_room);
    const int32_t wanted = CutAtGrain(sequence, RowsWithin(sequence, answers));
    const int32_t tokens = CutAtGrain(sequence, std::min<int64_t>(wanted, tokens_left));
    if (tokens > 0) {
      round.shares.push_back({i, tokens});
      round.prefill_tokens += tokens;
      tokens_left -= tokens;
      logit_rows_left -= LogitRows(sequence, tokens);
    }
    if (tokens < wanted) break;  // the window is full; what is left of it is nobody's to overtake
  }
}

}  // namespace

void NextRound(TimePoint /*now*/, const SchedulerState& state, Round& round) {
  round.window_us = kImmediateWindowUs;
  round.admitted = Admissible(state);
  round.decode_rows = 0;
  round.prefill_tokens = 0;
  round.shares.clear();
  AddDecoders(state, round);
  AddPrefill(state, round);
}

}  // namespace remontoir
