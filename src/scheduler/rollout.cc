// Rounds are chosen by NextRound; what they bring is assumed.
#include "scheduler/rollout.h"

#include <algorithm>
#include <limits>

#include "scheduler/free_room.h"
#include "scheduler/sealing.h"
#include "tensor/sealed_layout.h"

namespace remontoir {
namespace {

constexpr int32_t kReads = 1 << 20;  // a consumer who keeps up

}  // namespace

Rollout::Rollout(int32_t sequences_max, int32_t waiting_max)
    : round_(sequences_max, waiting_max + 1) {
  running_.reserve(sequences_max);
  running_states_.reserve(sequences_max);
  waiting_.reserve(waiting_max + 1);
  waiting_states_.reserve(waiting_max + 1);
  classes_.reserve(kRoomClassesMax);
}

Rollout::Place Rollout::Newcomer(SequenceState state, TimePoint arrives) {
  state.arrived = arrives;
  state.progress.events_room = kReads;
  state.answer_tokens = std::max(state.answer_tokens, 1);
  return {state, true};
}

void Rollout::Begin(const RolloutStart& start) {
  state_ = start.state;
  first_token_ = false;
  arrived_ = false;
  classes_.assign(start.state.classes.begin(), start.state.classes.end());
  running_.clear();
  waiting_.clear();
  const auto keep = [](std::vector<Place>& places, SequenceState state) {
    // Who stands still now is left out of the plan; everybody else keeps reading.
    if (state.progress.events_room > 0) state.progress.events_room = kReads;
    state.answer_tokens = std::max(state.answer_tokens, 1);
    places.push_back({state, false});
  };
  for (const SequenceState& sequence : start.state.running) keep(running_, sequence);
  for (const SequenceState& sequence : start.state.waiting) keep(waiting_, sequence);
}

bool Rollout::Apply(const std::vector<RoundShare>& shares, int64_t times) {
  for (const RoundShare& share : shares) {
    Place& place = running_[static_cast<size_t>(share.sequence)];
    SequenceProgress& progress = place.state.progress;
    progress.seals_made += share.seals;
    if (share.tokens == 0) continue;
    const bool decoded = progress.decoding();
    const auto tokens = static_cast<int32_t>(decoded ? times : share.tokens);
    progress.tokens_computed += tokens;
    // What falls due in the rounds that follow each other costs next to nothing beside them.
    if (place.state.sparse && times > 1) {
      progress.seals_made =
          std::max(progress.seals_made, SealsDue(progress.tokens_computed, state_.sealing.layers));
    }
    if (!decoded && progress.tokens_pending() > 0) continue;
    progress.tokens_known = progress.tokens_computed + 1;
    place.state.answer_tokens -= decoded ? tokens : 1;
    first_token_ |= place.newcomer;
  }
  return !first_token_;
}

void Rollout::GiveBack(const SequenceState& sequence) {
  state_.pages_free += sequence.room.pages;
  state_.segments_free += sequence.room.segments;
  state_.dynamic_pages_free = std::max(state_.dynamic_pages_free, sequence.room.dynamic_pages);
  if (sequence.room.tokens <= 0) return;
  for (RoomClass& room : classes_) {
    if (room.tokens >= sequence.room.tokens) {
      ++room.places_free;
      return;
    }
  }
}

void Rollout::Leave() {
  std::erase_if(running_, [this](const Place& place) {
    if (place.state.answer_tokens > 0) return false;
    GiveBack(place.state);
    ++state_.slots_free;
    return true;
  });
}

void Rollout::Join(const Round& round) {
  for (const int32_t i : round.admitted) {
    const Place& place = waiting_[static_cast<size_t>(i)];
    const RoomNeed& need = place.state.room;
    state_.pages_free -= need.pages;
    state_.segments_free -= need.segments;
    state_.dynamic_pages_free -= need.dynamic_pages;
    --state_.slots_free;
    if (need.tokens > 0) {
      RoomClass* const found = FindClass(classes_, need.tokens);
      if (found != nullptr) --found->places_free;
    }
    running_.push_back(place);
  }
  for (size_t i = round.admitted.size(); i-- > 0;) {
    waiting_.erase(waiting_.begin() + round.admitted[i]);
  }
}

int64_t Rollout::Repeats(const Round& round, int64_t round_us) const {
  if (round.prefill_tokens > 0 || !round.admitted.empty() || round.after.alone_last) return 1;
  int64_t times = std::numeric_limits<int32_t>::max();
  for (const RoundShare& share : round.shares) {
    const SequenceState& sequence = running_[static_cast<size_t>(share.sequence)].state;
    // A prompt or a row that waits for its seals.
    if (share.tokens == 0) return 1;
    times = std::min<int64_t>(times, sequence.answer_tokens);
  }
  const auto until = [&](TimePoint point) {
    times = std::min(times, ElapsedUs(now_, point) / std::max<int64_t>(round_us, 1) + 1);
  };
  if (round.wake.has_value()) until(*round.wake);
  if (!arrived_) until(arrives_);
  return std::max<int64_t>(times, 1);
}

int64_t Rollout::RestUs() const {
  double us = 0;
  for (const auto* places : {&running_, &waiting_}) {
    for (const Place& place : *places) {
      const SequenceProgress& progress = place.state.progress;
      if (progress.decoding()) continue;
      us += ShareUs(place.state, state_.sealing, state_.costs, progress.tokens_pending());
    }
  }
  return static_cast<int64_t>(std::min(us, static_cast<double>(kUsMax)));
}

RolloutEnd Rollout::RunLater(TimePoint now, int64_t delay_us, const RolloutStart& start,
                             const SequenceState& newcomer) {
  Begin(start);
  arrives_ = {now.us + delay_us};
  now_ = std::max(now, start.ends);
  Apply(start.shares, 1);
  Leave();
  RolloutEnd end{.first_token_us = kUsMax, .admission_us = kUsMax};
  for (int32_t i = 0; i < kRoundsMax; ++i) {
    if (!arrived_ && (now_ >= arrives_ || Empty())) {
      now_ = std::max(now_, arrives_);
      waiting_.push_back(Newcomer(newcomer, arrives_));
      arrived_ = true;
    }
    running_states_.clear();
    waiting_states_.clear();
    for (const Place& place : running_) running_states_.push_back(place.state);
    for (const Place& place : waiting_) waiting_states_.push_back(place.state);
    state_.running = running_states_;
    state_.waiting = waiting_states_;
    state_.classes = classes_;
    NextRound(now_, state_, round_);
    if (!round_.admitted.empty()) {
      end.admission_us = std::min(end.admission_us, ElapsedUs(now, now_));
    }
    if (round_.shares.empty() && round_.admitted.empty()) {
      if (!round_.wake.has_value() && arrived_) return end;  // everybody stands still
      TimePoint next = round_.wake.value_or(arrives_);
      if (!arrived_) next = std::min(next, arrives_);
      now_ = std::max(now_, next);
      state_.memory = round_.after;
      continue;
    }
    const auto round_us = static_cast<int64_t>(state_.costs.PredictUs(round_.work));
    const int64_t times = Repeats(round_, round_us);
    Join(round_);
    now_.us = std::min(now_.us + times * round_us, now.us + kUsMax);
    state_.memory = round_.after;
    const bool goes_on = Apply(round_.shares, times);
    end.first_token_us = std::clamp<int64_t>(ElapsedUs(arrives_, now_), 0, kUsMax);
    if (!goes_on || end.first_token_us >= kUsMax) return end;
    Leave();
  }
  end.first_token_us = std::min(kUsMax, end.first_token_us + RestUs());
  return end;
}

int64_t Rollout::WhenWithin(TimePoint now, const RolloutStart& start, const SequenceState& newcomer,
                            int64_t first_token_us_max) {
  constexpr int kRunsMax = 6;
  constexpr int64_t kCloseUs = 20'000;
  int64_t early = 0;  // known to be too early
  int64_t excess = RunLater(now, 0, start, newcomer).first_token_us - first_token_us_max;
  if (excess <= 0) return 0;
  // Later, and by then it would be let in: kUsMax until one is found.
  int64_t late = kUsMax;
  for (int run = 0; run < kRunsMax && late - early > kCloseUs; ++run) {
    // What is ahead shrinks as time passes, so the excess itself is the next guess.
    const int64_t guess = late == kUsMax ? early + std::max(excess, kCloseUs) : (early + late) / 2;
    excess = RunLater(now, guess, start, newcomer).first_token_us - first_token_us_max;
    (excess <= 0 ? late : early) = guess;
  }
  return late;
}

int64_t RetryAfterUs(int64_t us, double load) {
  // Less than all of what comes goes ahead of a retry: at 0.3, advice is within a factor of two for
  // nine of ten retries after a burst that ends, and for fewer where the load goes on at random.
  constexpr double kAhead = 0.3;
  const double stretched = static_cast<double>(us) / (1 - kAhead * std::clamp(load, 0.0, 2.0));
  return static_cast<int64_t>(std::min(stretched, static_cast<double>(Rollout::kUsMax)));
}

}  // namespace remontoir
