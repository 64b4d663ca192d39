// The steps of choosing a round: gate, admission, decode rows, prompts.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "scheduler/free_room.h"
#include "scheduler/order.h"
#include "scheduler/sealing.h"
#include "scheduler/window.h"

namespace remontoir {
namespace {

// Of `legacy`, whose prompts are computed whole.
constexpr int64_t kUnboundedWindowUs = 3'600'000'000;

// One call of NextRound.
class RoundChoice {
 public:
  RoundChoice(TimePoint now, const SchedulerState& state, Round& round)
      : now_(now),
        state_(state),
        round_(round),
        order_(now, state),
        adaptive_(state.options.policy == SchedulingPolicy::kAdaptive),
        legacy_(state.options.policy == SchedulingPolicy::kLegacy),
        gated_(HasGate(state.options.policy)) {}

  void Choose();

 private:
  void OpenGate();
  bool Released(const SequenceState& sequence) const {
    return !gated_ || sequence.arrived <= round_.after.released_until;
  }
  void Admit();
  // Whether somebody who is alone runs, and whether anybody else does, with something to compute.
  void ChooseCompany();
  bool InRound(const SequenceState& sequence) const {
    return sequence.alone == round_.after.alone_last;
  }
  bool Computes(const SequenceState& sequence) const {
    return sequence.progress.decoding()
               ? sequence.progress.events_room > 0
               : WantedTokens(sequence.progress, state_.bounds.logit_rows_max) > 0;
  }

  // round_.order, whose indexes ascend, into the order of service. (std::stable_sort would
  // allocate.)
  template <class ByIndex>
  void Sort(ByIndex at) {
    std::ranges::sort(round_.order, [&](int32_t a, int32_t b) {
      if (order_.Before(at(a), at(b))) return true;
      return !order_.Before(at(b), at(a)) && a < b;
    });
  }

  void AddDecoders();
  void SealForDecoders();
  void AddPrompts();
  void ListPrompts();
  PromptShare Fit(int32_t i, const PromptLimits& limits) const {
    if (limits.tokens_max <= 0) return {};
    return FitPrompt(At(i), state_.sealing, state_.costs, limits);
  }
  int64_t WindowUs() const;
  int32_t PromptsBehind() const;
  // What of it may be computed when so many logit rows are left.
  static int32_t WantedTokens(const SequenceProgress& sequence, int64_t logit_rows_left);

  int32_t SequenceCount() const {
    return static_cast<int32_t>(state_.running.size() + round_.admitted.size());
  }
  const SequenceState& At(int32_t i) const {
    const auto running = static_cast<int32_t>(state_.running.size());
    return i < running ? state_.running[i] : state_.waiting[round_.admitted[i - running]];
  }

  const TimePoint now_;
  const SchedulerState& state_;
  Round& round_;
  const ServiceOrder order_;
  const bool adaptive_;
  const bool legacy_;
  const bool gated_;
};

int32_t LogitRows(const SequenceProgress& sequence, int32_t tokens) {
  const int32_t end = sequence.tokens_computed + tokens;
  return std::max(0, end - std::max(sequence.logits_begin, sequence.tokens_computed));
}

// How many next tokens bring at most `logit_rows` wanted rows.
int64_t RowsWithin(const SequenceProgress& sequence, int64_t logit_rows) {
  const int64_t unwanted = std::max(0, sequence.logits_begin - sequence.tokens_computed);
  return unwanted + logit_rows;
}

int32_t RoundChoice::WantedTokens(const SequenceProgress& sequence, int64_t logit_rows_left) {
  const int64_t answers = std::min<int64_t>(logit_rows_left, sequence.events_room);
  return CutAtGrain(sequence, RowsWithin(sequence, answers));
}

void RoundChoice::Choose() {
  round_.admitted.clear();
  round_.shares.clear();
  round_.wake.reset();
  round_.decode_rows = 0;
  round_.prefill_tokens = 0;
  round_.work = {};
  round_.after = state_.memory;
  if (gated_) OpenGate();
  if (!legacy_ || state_.running.empty()) Admit();
  ChooseCompany();
  AddDecoders();
  round_.window_us = WindowUs();
  SealForDecoders();
  AddPrompts();
}

// Arrivals ascend, so those behind the gate are the last of the line.
void RoundChoice::OpenGate() {
  int32_t held = 0;
  TimePoint first;
  for (const SequenceState& sequence : state_.waiting) {
    if (Released(sequence)) continue;
    if (held++ == 0) first = sequence.arrived;
  }
  if (held == 0) return;
  if (held >= kGateSequences || ElapsedUs(first, now_) >= kGateUs) {
    round_.after.released_until = state_.waiting.back().arrived;
    round_.after.gate_opened = now_;
  } else {
    round_.wake = TimePoint{first.us + kGateUs};
  }
}

void RoundChoice::Admit() {
  round_.order.clear();
  bool alone_runs = false;
  for (const SequenceState& sequence : state_.running) alone_runs |= sequence.alone;
  const auto waiting = static_cast<int32_t>(state_.waiting.size());
  for (int32_t i = 0; i < waiting; ++i) {
    if (Released(state_.waiting[i])) round_.order.push_back(i);
  }
  Sort([&](int32_t i) -> const SequenceState& { return state_.waiting[i]; });
  const int32_t slots = legacy_ ? std::min(state_.slots_free, kGateSequences) : state_.slots_free;
  FreeRoom room(state_);
  for (const int32_t i : round_.order) {
    if (static_cast<int32_t>(round_.admitted.size()) >= slots) break;
    const SequenceState& sequence = state_.waiting[i];
    if (sequence.alone && alone_runs) continue;
    if (room.TryTake(sequence.room)) {
      round_.admitted.push_back(i);
      alone_runs |= sequence.alone;
    } else if (ElapsedUs(sequence.arrived, now_) >= kOvertakenUsMax) {
      break;
    }
  }
  std::ranges::sort(round_.admitted);
}

void RoundChoice::ChooseCompany() {
  bool alone = false;
  bool shared = false;
  for (int32_t i = 0; i < SequenceCount(); ++i) {
    if (Computes(At(i))) (At(i).alone ? alone : shared) = true;
  }
  round_.after.alone_last = alone && (!shared || !state_.memory.alone_last);
}

void RoundChoice::AddDecoders() {
  if (legacy_) {
    for (int32_t i = 0; i < SequenceCount(); ++i) {
      if (InRound(At(i)) && !At(i).progress.decoding() && Computes(At(i))) return;
    }
  }
  for (int32_t i = 0; i < static_cast<int32_t>(state_.running.size()); ++i) {
    const SequenceProgress& progress = At(i).progress;
    if (!InRound(At(i)) || !progress.decoding() || progress.events_room < 1) continue;
    round_.shares.push_back({i, 1, 0});
    ++round_.decode_rows;
    round_.work.AddDecode(progress.tokens_known);
  }
}

// The seals of those who decode: first everybody's turn, then what some are behind with. Who needs
// more than there is time for gets no row.
void RoundChoice::SealForDecoders() {
  for (RoundShare& share : round_.shares) {
    share.seals = SealsOfDecode(At(share.sequence), state_.sealing).turn;
    round_.work.seals += share.seals;
  }
  for (RoundShare& share : round_.shares) {
    const SequenceState& sequence = At(share.sequence);
    const DecodeSeals seals = SealsOfDecode(sequence, state_.sealing);
    const double us_left =
        static_cast<double>(round_.window_us) - state_.costs.PredictUs(round_.work);
    const auto more = static_cast<int32_t>(
        std::min<int64_t>(seals.wanted - seals.turn, state_.costs.SealsWithin(us_left)));
    share.seals += more;
    round_.work.seals += more;
    if (share.seals >= seals.needed) continue;
    share.tokens = 0;
    --round_.decode_rows;
    round_.work.RemoveDecode(sequence.progress.tokens_known);
  }
}

// Requests that wait for room or slots beside the round's prompts: a longer round is longer for
// them as well.
int32_t RoundChoice::PromptsBehind() const {
  int32_t released = 0;
  for (const SequenceState& sequence : state_.waiting) released += Released(sequence) ? 1 : 0;
  return released - static_cast<int32_t>(round_.admitted.size());
}

int64_t RoundChoice::WindowUs() const {
  switch (state_.options.policy) {
    case SchedulingPolicy::kLegacy: return kUnboundedWindowUs;
    case SchedulingPolicy::kFixed: return kFixedWindowUs;
    case SchedulingPolicy::kImmediate: return kImmediateWindowUs;
    case SchedulingPolicy::kAdaptive: break;
  }
  int32_t prompts = PromptsBehind();
  for (int32_t i = 0; i < SequenceCount(); ++i) prompts += At(i).progress.decoding() ? 0 : 1;
  const int32_t slots = state_.slots_free - static_cast<int32_t>(round_.admitted.size());
  const double expected = state_.forecast.ExpectedWithin(slots);
  return AdaptiveWindowUs(state_.options, {.overhead_s = state_.costs.PredictUs(round_.work) / 1e6,
                                           .prompts = prompts,
                                           .decode_rows = round_.decode_rows,
                                           .arrivals_per_s = expected * 1000 / kForecastHorizonMs});
}

void RoundChoice::ListPrompts() {
  round_.order.clear();
  for (int32_t i = 0; i < SequenceCount(); ++i) {
    if (InRound(At(i)) && !At(i).progress.decoding()) round_.order.push_back(i);
  }
  Sort([&](int32_t i) -> const SequenceState& { return At(i); });
}

void RoundChoice::AddPrompts() {
  ListPrompts();
  const double overhead_us = state_.costs.PredictUs(round_.work);
  const double arrivals_per_s =
      state_.forecast.ExpectedWithin(kForecastClasses) * 1000.0 / kForecastHorizonMs;
  CutRule cut(state_.options, overhead_us / 1e6, arrivals_per_s);
  double us_left = static_cast<double>(round_.window_us) - overhead_us;
  int32_t tokens_left = state_.bounds.tokens_max - round_.decode_rows;
  int64_t logit_rows_left = state_.bounds.logit_rows_max - round_.decode_rows;
  int32_t prompts_left = static_cast<int32_t>(round_.order.size()) + PromptsBehind();
  bool first = true;  // moves whatever the window says
  for (const int32_t i : round_.order) {
    const SequenceProgress& progress = At(i).progress;
    const int32_t wanted = WantedTokens(progress, logit_rows_left);
    PromptLimits limits = {std::min(wanted, tokens_left), us_left, first};
    PromptShare share = Fit(i, limits);
    if (adaptive_ && share.us > 0) {
      const double allowed_us = cut.Allow(share.us / 1e6, prompts_left) * 1e6;
      if (allowed_us < share.us) {
        limits.us_max = allowed_us;
        share = Fit(i, limits);
      }
    }
    if (share.tokens > 0 || share.seals > 0) {
      first = false;
      round_.shares.push_back({i, share.tokens, share.seals});
      round_.prefill_tokens += share.tokens;
      round_.work.AddPrefill(share.tokens, progress.tokens_computed);
      round_.work.seals += share.seals;
      tokens_left -= share.tokens;
      logit_rows_left -= LogitRows(progress, share.tokens);
      us_left -= share.us;
      cut.Take(share.us / 1e6, share.tokens == progress.tokens_pending());
    }
    --prompts_left;
    // The round is full; what is left of it is nobody's to overtake.
    if (share.tokens < wanted) break;
  }
}

}  // namespace

void NextRound(TimePoint now, const SchedulerState& state, Round& round) {
  RoundChoice(now, state, round).Choose();
}

int32_t ReportedWindowMs(const SchedulerOptions& options, const Round& round) {
  const int64_t us = HasGate(options.policy) ? kGateUs : round.window_us;
  return static_cast<int32_t>(us / 1000);
}

}  // namespace remontoir
