// The life of the loop: one round after the other, asleep while nothing can run.
#include "engine/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace remontoir {

Engine::Loop::Loop(ModelRunner& runner, const Clock& clock, const EngineOptions& options,
                   int32_t kv_page_count)
    : runner_(runner),
      clock_(clock),
      options_(options),
      context_max_(runner.limits().context_max),
      bounds_{std::min(options.round_tokens_max, runner.limits().rows_max),
              runner.limits().logit_rows_max},
      queue_(options.queue_max),
      pool_(kv_page_count),
      sampler_(runner.shape().vocabulary_size),
      round_(options.sequences_max),
      metrics_(kv_page_count) {
  for (int32_t i = 0; i < options.sequences_max; ++i) {
    slots_.emplace_back(pool_, runner.shape().vocabulary_size, context_max_);
    free_slots_.push_back(&slots_.back());
  }
  running_.reserve(options.sequences_max);
  waiting_states_.reserve(options.queue_max);
  running_states_.reserve(options.sequences_max);
  batch_.reserve(options.sequences_max);
  dropped_.reserve(options.queue_max);
  to_notify_.reserve(options.sequences_max + options.queue_max);
  stats_.kv_pages_total = kv_page_count;
  stats_.kv_pages_free = kv_page_count;
}

void Engine::Loop::Shutdown() {
  queue_.Close();
  stopping_.store(true, std::memory_order_release);
  wake_.Notify();
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Engine::Loop::Start() {
  thread_ = std::thread([this] { Run(); });
}

EngineStats Engine::Loop::stats() const {
  const int32_t waiting = queue_.size();
  const std::lock_guard lock(stats_mutex_);
  EngineStats stats = stats_;
  stats.waiting = waiting;
  return stats;
}

const MetricSet& Engine::Loop::metrics() {
  metrics_.Update(stats());
  return metrics_;
}

void Engine::Loop::Run() {
  SchedulerState state;
  while (!stopping_.load(std::memory_order_acquire)) {
    const TimePoint begin = clock_.Now();
    DropCancelled();
    DescribeState(state);
    NextRound(begin, state, round_);
    Admit(begin, round_.admitted);
    if (!round_.shares.empty()) {
      RunBatch();
      Commit();
      EndRound(begin);
    }
    NotifyAll();
    // A wake-up since DropCancelled is pending in wake_, so nothing is missed.
    if (round_.shares.empty() && round_.admitted == 0) wake_.Wait(-1);
  }
  CancelEverything();
}

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

void Engine::Loop::DescribeState(SchedulerState& state) {
  running_states_.clear();
  for (const Sequence* sequence : running_) {
    running_states_.push_back(
        ProgressOf(*sequence->generation, sequence->tokens_known(), sequence->tokens_computed));
    PauseIfFull(*sequence->generation, running_states_.back());
  }
  waiting_states_.clear();
  queue_.ForEach([this](const AdmissionQueue::Entry& entry) {
    const Request& request = entry.generation->request();
    const auto prompt = static_cast<int32_t>(request.prompt.size());
    waiting_states_.push_back(
        {entry.arrived, ProgressOf(*entry.generation, prompt, 0), PagesToReserve(request)});
  });
  state.waiting = waiting_states_;
  state.running = running_states_;
  state.slots_free = static_cast<int32_t>(free_slots_.size());
  state.pages_free = pool_.pages_free();
  state.bounds = bounds_;
  state.cost = cost_;
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

int32_t Engine::Loop::PagesToReserve(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (request.max_tokens >= 0) return PagesFor(prompt + request.max_tokens);
  const int64_t tokens = std::min<int64_t>(prompt + options_.reserve_tokens_default, context_max_);
  return std::min(PagesFor(tokens), pool_.page_count());
}

void Engine::Loop::Admit(TimePoint now, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    AdmissionQueue::Entry entry = queue_.PopFront();
    const Request& request = entry.generation->request();
    entry.generation->queue_us_.store(ElapsedUs(entry.arrived, now), std::memory_order_release);
    metrics_.queue.Observe(ElapsedUs(entry.arrived, now));

    Sequence& sequence = *free_slots_.back();
    free_slots_.pop_back();
    REM_CHECK(sequence.lease.Reserve(PagesToReserve(request)), "admitted without room");
    sequence.admitted = now;
    sequence.first_token.reset();
    sequence.tokens_computed = 0;
    sequence.tokens.clear();
    sequence.counts_tokens = UsesTokenCounts(request.sampling);
    for (const TokenId token : request.prompt) {
      sequence.tokens.push_back(Index(token));
      if (sequence.counts_tokens) sequence.counts.AddPrompt(token);
    }
    sequence.generation = std::move(entry.generation);
    running_.push_back(&sequence);
  }
  if (count == 0) return;
  const std::lock_guard lock(stats_mutex_);
  stats_.running += count;
  stats_.kv_pages_free = pool_.pages_free();
}

void Engine::Loop::RunBatch() {
  batch_.clear();
  for (const RoundShare& share : round_.shares) {
    const Sequence& sequence = *running_[share.sequence];
    const int32_t first = sequence.tokens_computed;
    const std::span<const int32_t> tokens(sequence.tokens);
    batch_.push_back(
        {.tokens = tokens.subspan(first, share.tokens),
         .first_position = first,
         .pages = sequence.lease.pages().first(PagesFor(int64_t{first} + share.tokens)),
         .logits_begin = std::clamp(sequence.logits_begin() - first, 0, share.tokens)});
  }
  runner_.Run(batch_);
  round_ended_ = clock_.Now();
}

void Engine::Loop::EndRound(TimePoint begin) {
  const int64_t elapsed_us = ElapsedUs(begin, clock_.Now());
  cost_.Commit(round_.prefill_tokens, round_.decode_rows, elapsed_us);
  metrics_.round.Observe(elapsed_us);
  metrics_.round_tokens.Observe(round_.prefill_tokens + round_.decode_rows);
}

}  // namespace remontoir
