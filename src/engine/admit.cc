// The start of a round: who leaves, what the scheduler is told, who joins.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/loop.h"

namespace remontoir {

void Engine::Loop::DropCancelled() {
  for (Sequence* sequence : running_) {
    if (sequence->generation->cancelled_.load(std::memory_order_acquire)) {
      Finish(*sequence, {.finish = FinishReason::kCancelled});
    }
  }
  RemoveFinished();
  queue_.TakeIf(
      [](const AdmissionQueue::Entry& entry) {
        return entry.generation->cancelled_.load(std::memory_order_acquire);
      },
      dropped_);
  for (AdmissionQueue::Entry& entry : dropped_) FinishWaiting(entry);
  dropped_.clear();
}

void Engine::Loop::DescribeState(TimePoint now, SchedulerState& state) {
  DescribeRunning(state);
  for (size_t i = 0; i < running_.size(); ++i) {
    PauseIfFull(*running_[i]->generation, running_states_[i].progress);
  }
  state.costs = fit_.model();
  state.forecast = ForecastAt(now);
  DescribeWaiting(state);
}

ArrivalForecast Engine::Loop::ForecastAt(TimePoint now) {
  const std::lock_guard lock(predictor_mutex_);
  if (!predictor_.has_value()) return {};
  predictor_->Advance(now);
  return predictor_->Forecast();
}

void Engine::Loop::DescribeRunning(SchedulerState& state) {
  running_states_.clear();
  for (const Sequence* sequence : running_) {
    if (sequence->generation == nullptr) {  // ended at its admission: it only keeps its index
      running_states_.push_back({});
      continue;
    }
    const Request& request = sequence->request();
    running_states_.push_back(
        {.arrived = sequence->arrived,
         .progress =
             ProgressOf(*sequence->generation, sequence->tokens_known(), sequence->tokens_computed),
         .room = sequence->room.Held(),
         .priority = request.priority,
         .alone = request.alone,
         .answer_tokens =
             ExpectedAnswer(request, sequence->tokens_known() - sequence->prompt_tokens()),
         .sparse = !sequence->room.segments().empty()});
    running_states_.back().progress.seals_made = sequence->seals_made;
  }
  state.running = running_states_;
  state.slots_free = static_cast<int32_t>(free_slots_.size());
  rooms_.Describe(state);
}

int32_t Engine::Loop::AnswerTokensMax(const Request& request) const {
  return request.max_tokens >= 0 ? request.max_tokens : options_.reserve_tokens_default;
}

// Tokens that are still to come, as far as answers of late tell.
int32_t Engine::Loop::ExpectedAnswer(const Request& request, int32_t generated) const {
  const int32_t most = AnswerTokensMax(request);
  const double share = answer_share_.load(std::memory_order_relaxed);
  const auto expected = static_cast<int32_t>(std::lround(share * most));
  return std::clamp(expected - generated, 1, std::max(1, most - generated));
}

void Engine::Loop::DescribeWaiting(SchedulerState& state) {
  waiting_states_.clear();
  // Prompts are looked up in the prefix cache while they could join: the others count as new, since
  // what was there when they came may have gone.
  int32_t lookups = 2 * state.slots_free;
  queue_.ForEach([&](AdmissionQueue::Entry& entry) {
    const Request& request = entry.generation->request();
    const PrefixMatch match = lookups-- > 0 ? rooms_.Match(request) : PrefixMatch{};
    entry.state.progress =
        ProgressOf(*entry.generation, static_cast<int32_t>(request.prompt.size()), match.tokens());
    entry.state.room = rooms_.NeedOf(request, match);
    entry.state.progress.seals_made = rooms_.SegmentsKept(request, match) * sealing_.layers;
    waiting_states_.push_back(entry.state);
  });
  state.waiting = waiting_states_;
}

SequenceProgress Engine::Loop::ProgressOf(const Generation& generation, int32_t tokens_known,
                                          int32_t tokens_computed) {
  const Request& request = generation.request();
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  const bool scores = request.kind == RequestKind::kScore;
  // One place is the last event's. A score's first row brings two events: its own token's as well.
  const int32_t taken = scores && tokens_computed == 0 ? 2 : 1;
  return {.prompt_tokens = prompt,
          .tokens_known = tokens_known,
          .tokens_computed = tokens_computed,
          .logits_begin = scores ? 0 : prompt - 1,
          .events_room = static_cast<int32_t>(generation.events_.room()) - taken};
}

void Engine::Loop::PauseIfFull(Generation& generation, SequenceProgress& progress) {
  const bool scoring = generation.request().kind == RequestKind::kScore && !progress.decoding();
  const int32_t needed =
      scoring ? std::min(kChunkGrain, progress.tokens_known - progress.tokens_computed) : 1;
  if (progress.events_room >= needed) return;
  generation.paused_.exchange(true, std::memory_order_acq_rel);
  // The consumer may have made room just before it could see that.
  progress = ProgressOf(generation, progress.tokens_known, progress.tokens_computed);
}

void Engine::Loop::Admit(TimePoint now) {
  if (round_.admitted.empty()) return;
  queue_.Take(round_.admitted, admitted_);
  for (size_t i = 0; i < admitted_.size(); ++i) {
    const SequenceState& planned = waiting_states_[static_cast<size_t>(round_.admitted[i])];
    AdmitOne(now, planned.progress.tokens_computed, admitted_[i]);
  }
  admitted_.clear();
  DropStaleShares();
  const std::lock_guard lock(stats_mutex_);
  stats_.running += static_cast<int32_t>(round_.admitted.size());
  stats_.kv = rooms_.stats();
}

void Engine::Loop::AdmitOne(TimePoint now, int32_t tokens_matched, AdmissionQueue::Entry& entry) {
  Generation& generation = *entry.generation;
  const Request& request = generation.request();
  const TimePoint arrived = entry.state.arrived;
  generation.queue_us_.store(ElapsedUs(arrived, now), std::memory_order_release);
  generation.hold_us_.store(HoldUs(arrived), std::memory_order_release);
  metrics_.queue.Observe(ElapsedUs(arrived, now));

  Sequence& sequence = *free_slots_.back();
  free_slots_.pop_back();
  const TimePoint begin = clock_.Now();
  const Status taken = sequence.room.Take(request, tokens_matched);
  const int64_t init_us = ElapsedUs(begin, clock_.Now());
  generation.room_init_us_.store(init_us, std::memory_order_release);
  generation.bucket_tokens_.store(sequence.room.bucket_tokens(), std::memory_order_release);
  generation.sparse_.store(!sequence.room.segments().empty(), std::memory_order_release);
  generation.cached_tokens_.store(sequence.room.tokens_matched(), std::memory_order_release);
  generation.admitted_.store(true, std::memory_order_release);
  metrics_.ObserveRoom(sequence.room.bucket_tokens() == 0, init_us);

  sequence.arrived = arrived;
  sequence.admitted = now;
  sequence.first_token.reset();
  sequence.predicted_us = entry.first_token_us;
  sequence.tokens_computed = sequence.room.tokens_matched();
  sequence.seals_made = sequence.room.segments_kept() * sealing_.layers;
  sequence.tokens.clear();
  sequence.counts_tokens = UsesTokenCounts(request.sampling);
  for (const TokenId token : request.prompt) {
    sequence.tokens.push_back(Index(token));
    if (sequence.counts_tokens) sequence.counts.AddPrompt(token);
  }
  sequence.generation = std::move(entry.generation);
  running_.push_back(&sequence);
  if (taken.ok()) return;
  // The system has no memory for a dynamic room.
  Finish(sequence, {.finish = FinishReason::kLength, .detail = StopDetail::kKvRoom});
}

// How long the policy's gate kept it back.
int64_t Engine::Loop::HoldUs(TimePoint arrived) const {
  if (!HasGate(options_.scheduler.policy)) return 0;
  return std::clamp<int64_t>(ElapsedUs(arrived, round_.after.gate_opened), 0, kGateUs);
}

// The round is about to compute these first tokens: their replies can begin.
void Engine::Loop::TellPlaced() {
  for (const RoundShare& share : round_.shares) {
    const Sequence& sequence = *running_[static_cast<size_t>(share.sequence)];
    if (sequence.first_token.has_value()) continue;
    if (sequence.tokens_computed + share.tokens < sequence.prompt_tokens()) continue;
    Generation& generation = *sequence.generation;
    generation.round_sequences_.store(static_cast<int32_t>(round_.shares.size()),
                                      std::memory_order_release);
    generation.window_ms_.store(ReportedWindowMs(options_.scheduler, round_),
                                std::memory_order_release);
    generation.placed_.store(true, std::memory_order_release);
    NotifyLater(generation.notifier_);
  }
  NotifyAll();
}

// Whether a sequence that joined isn't what the round was planned for: it ended at its admission
// and only keeps its index, or others who joined took what the prefix cache had of it.
bool Engine::Loop::IsStale(const RoundShare& share) const {
  const auto place = static_cast<size_t>(share.sequence);
  const Sequence& sequence = *running_[place];
  if (sequence.generation == nullptr) return true;
  const size_t first_joined = running_.size() - round_.admitted.size();
  if (place < first_joined) return false;
  const auto planned = static_cast<size_t>(round_.admitted[place - first_joined]);
  const SequenceProgress& progress = waiting_states_[planned].progress;
  return progress.tokens_computed != sequence.tokens_computed ||
         progress.seals_made != sequence.seals_made;
}

// They get a share of the next round.
void Engine::Loop::DropStaleShares() {
  const auto dropped =
      std::erase_if(round_.shares, [this](const RoundShare& share) { return IsStale(share); });
  if (dropped == 0) return;
  round_.prefill_tokens = 0;
  round_.work = {};
  for (const RoundShare& share : round_.shares) {
    const Sequence& sequence = *running_[static_cast<size_t>(share.sequence)];
    round_.work.seals += share.seals;
    if (sequence.tokens_known() > sequence.prompt_tokens()) {
      if (share.tokens > 0) round_.work.AddDecode(sequence.tokens_known());
    } else {
      round_.prefill_tokens += share.tokens;
      round_.work.AddPrefill(share.tokens, sequence.tokens_computed);
    }
  }
}

}  // namespace remontoir
