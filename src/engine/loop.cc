// The life of the loop: one round after the other, asleep while nothing can run.
#include "engine/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/program_memory.h"
#include "base/stack.h"

namespace remontoir {

Engine::Loop::Loop(ModelRunner& runner, const Clock& clock, const EngineOptions& options,
                   int32_t kv_page_count)
    : runner_(runner),
      clock_(clock),
      options_(options),
      context_max_(runner.limits().context_max),
      bounds_{std::min(options.round_tokens_max, runner.limits().rows_max),
              runner.limits().logit_rows_max},
      sealing_{runner.sealed_layers(), runner.limits().sparse.engage_at},
      queue_(options.queue_max),
      forecaster_(options.sequences_max, options.queue_max),
      predictor_(options.predictor),
      rooms_(runner.kv_store(), kv_page_count, context_max_, options, runner.limits().sparse),
      sampler_(runner.shape().vocabulary_size),
      fit_(options.costs),
      round_(options.sequences_max, options.queue_max),
      metrics_(kv_page_count) {
  for (int32_t i = 0; i < options.sequences_max; ++i) {
    slots_.emplace_back(rooms_, runner.shape().vocabulary_size, context_max_);
    free_slots_.push_back(&slots_.back());
  }
  running_.reserve(options.sequences_max);
  waiting_states_.reserve(options.queue_max);
  running_states_.reserve(options.sequences_max);
  batch_.reserve(options.sequences_max);
  view_.shares.reserve(options.sequences_max);
  forecast_start_.shares.reserve(options.sequences_max);
  forecast_running_.reserve(options.sequences_max);
  forecast_waiting_.reserve(options.queue_max);
  forecast_classes_.reserve(kRoomClassesMax);
  state_.bounds = bounds_;
  state_.sealing = sealing_;
  state_.options = options.scheduler;
  dropped_.reserve(options.queue_max);
  admitted_.reserve(options.sequences_max);
  to_notify_.reserve(options.sequences_max + options.queue_max);
  stats_.kv = rooms_.stats();
  stats_.seals_each = sealing_.layers;
  PublishView({}, {});
}

void Engine::Loop::Shutdown() {
  queue_.Close();
  const bool first = !stopping_.exchange(true, std::memory_order_acq_rel);
  wake_.Notify();
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
  if (first && !options_.own_thread) CancelEverything();
}

void Engine::Loop::Start() {
  thread_ = std::thread([this] { Run(); });
}

EngineStats Engine::Loop::stats() {
  const int32_t waiting = queue_.size();
  const std::lock_guard lock(stats_mutex_);
  EngineStats stats = stats_;
  stats.waiting = waiting;
  const std::lock_guard predictor_lock(predictor_mutex_);
  if (predictor_.has_value()) {
    stats.forecast_falls_back = predictor_->fallback();
    stats.forecast_lstm_score = predictor_->lstm_score();
    stats.forecast_ewma_score = predictor_->ewma_score();
    stats.forecast_lstm_weight = predictor_->lstm_weight();
    stats.arrivals_expected = predictor_->Forecast().ExpectedWithin(kForecastClasses);
  }
  return stats;
}

const MetricSet& Engine::Loop::metrics() {
  metrics_.Update(stats());
  return metrics_;
}

void Engine::Loop::Run() {
  PrefaultStack();
  PrefaultProgram();
  while (!stopping_.load(std::memory_order_acquire)) {
    const RoundEnd end = RunRound();
    // A wake-up since the round's start is pending in wake_, so nothing is missed.
    if (!end.ran) wake_.Wait(end.wake.has_value() ? MsUntil(*end.wake) : -1);
  }
  const std::lock_guard lock(state_mutex_);
  CancelEverything();
}

int Engine::Loop::MsUntil(TimePoint point) const {
  const int64_t us = std::max<int64_t>(0, ElapsedUs(clock_.Now(), point));
  return static_cast<int>(std::min<int64_t>((us + 999) / 1000, 60'000));
}

CostModel Engine::Loop::costs() const {
  const std::lock_guard lock(state_mutex_);
  return fit_.model();
}

RoundEnd Engine::Loop::RunRound() {
  const TimePoint begin = clock_.Now();
  const ThreadCosts costs_before = CostsOfThread();
  {
    const std::lock_guard lock(state_mutex_);
    DropCancelled();
    DescribeState(begin, state_);
    NextRound(begin, state_, round_);
    Admit(begin);
    state_.memory = round_.after;
    PublishView(round_.shares,
                {begin.us + static_cast<int64_t>(state_.costs.PredictUs(round_.work))});
  }
  TellPlaced();
  if (!round_.shares.empty()) RunBatch();
  {
    const std::lock_guard lock(state_mutex_);
    if (!round_.shares.empty()) {
      Commit();
      EndRound(begin, costs_before);
    }
    RemoveFinished();
    PublishView({}, round_ended_);
  }
  NotifyAll();
  return {.ran = !round_.shares.empty() || !round_.admitted.empty(), .wake = round_.wake};
}

void Engine::Loop::PublishView(std::span<const RoundShare> shares, TimePoint ends) {
  DescribeRunning(view_.state);
  view_.state.bounds = state_.bounds;
  view_.state.sealing = sealing_;
  view_.state.options = state_.options;
  view_.state.costs = fit_.model();
  view_.state.forecast = state_.forecast;
  view_.state.memory = state_.memory;
  view_.shares.assign(shares.begin(), shares.end());
  view_.ends = ends;
}

void Engine::Loop::RunBatch() {
  batch_.clear();
  for (const RoundShare& share : round_.shares) {
    const Sequence& sequence = *running_[share.sequence];
    const int32_t first = sequence.tokens_computed;
    const std::span<const int32_t> tokens(sequence.tokens);
    batch_.push_back({.tokens = tokens.subspan(first, share.tokens),
                      .first_position = first,
                      .pages = sequence.room.pages().first(PagesFor(int64_t{first} + share.tokens)),
                      .logits_begin = std::clamp(sequence.logits_begin() - first, 0, share.tokens),
                      .sealed = sequence.room.segments(),
                      .seals = SealRange{sequence.seals_made, sequence.seals_made + share.seals}});
  }
  runner_.Run(batch_);
  round_ended_ = clock_.Now();
}

void Engine::Loop::EndRound(TimePoint begin, const ThreadCosts& costs_before) {
  const int64_t elapsed_us = ElapsedUs(begin, clock_.Now());
  fit_.Add(round_.work, elapsed_us);
  metrics_.ObserveRound(round_, options_.sequences_max);
  metrics_.round.Observe(elapsed_us);
  metrics_.round_tokens.Observe(round_.prefill_tokens + round_.decode_rows);
  const ThreadCosts workers = runner_.WorkerCosts();
  const ThreadCosts costs = CostsOfThread() - costs_before + (workers - worker_costs_);
  worker_costs_ = workers;
  if (std::exchange(warm_, true)) {
    const std::lock_guard lock(stats_mutex_);
    stats_.path_costs = stats_.path_costs + costs;
  }
}

}  // namespace remontoir
