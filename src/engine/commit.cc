// What comes of a round: scored and drawn tokens, finish reasons, events.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "engine/loop.h"
#include "sampling/logprobs.h"

namespace remontoir {
namespace {

void FillLogprobs(std::span<const float> logits, TokenId token, int32_t top_count,
                  TokenEvent& event) {
  const double log_sum = LogSumExp(logits);
  event.has_logprob = true;
  event.logprob = LogprobAt(logits, log_sum, token);
  std::array<TokenId, kTopLogprobsMax> top;
  event.top_count = static_cast<uint8_t>(TopTokens(logits, std::span(top).first(top_count)));
  for (int i = 0; i < event.top_count; ++i) {
    event.top[i] = {top[i], LogprobAt(logits, log_sum, top[i])};
  }
}

}  // namespace

void Engine::Loop::Commit() {
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.rounds;
    stats_.tokens_prefilled += round_.prefill_tokens;
  }
  int32_t logit_row = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    Sequence& sequence = *running_[round_.shares[i].sequence];
    const RoundShare& share = round_.shares[i];
    AddReadings(sequence, share, static_cast<int32_t>(i));
    CommitShare(sequence, share, logit_row);
    logit_row += share.tokens - batch_[i].logits_begin;
  }
}

void Engine::Loop::AddReadings(const Sequence& sequence, const RoundShare& share, int32_t place) {
  if (sequence.room.segments().empty()) return;
  const SparseReadings readings = runner_.ReadingsOf(place);
  Generation& generation = *sequence.generation;
  generation.far_blocks_.fetch_add(readings.far_blocks, std::memory_order_relaxed);
  generation.chosen_blocks_.fetch_add(readings.chosen_blocks, std::memory_order_relaxed);
  if (readings.residual_max > generation.residual_max_.load(std::memory_order_relaxed)) {
    generation.residual_max_.store(readings.residual_max, std::memory_order_relaxed);
  }
  const int32_t end = sequence.tokens_computed + share.tokens;
  const int32_t sparse_rows = end - std::max(sequence.tokens_computed, sealing_.engage_at);
  const std::lock_guard lock(stats_mutex_);
  stats_.sparse_rows += std::max(0, sparse_rows);
  stats_.seals += share.seals;
  stats_.far_blocks += readings.far_blocks;
  stats_.chosen_blocks += readings.chosen_blocks;
  stats_.residual_max = std::max(stats_.residual_max, readings.residual_max);
}

void Engine::Loop::CommitShare(Sequence& sequence, const RoundShare& share, int32_t logit_row) {
  const int32_t first = sequence.tokens_computed;
  const int32_t end = first + share.tokens;
  const int32_t prompt = sequence.prompt_tokens();
  sequence.tokens_computed = end;
  sequence.seals_made += share.seals;
  sequence.room.Publish(sequence.computed(),
                        sealing_.layers > 0 ? sequence.seals_made / sealing_.layers : 0);
  const int32_t wanted_from = std::max(first, sequence.logits_begin());
  if (sequence.scores() && first == 0) GivePromptToken(sequence, 0, {});
  for (int32_t row = wanted_from; row < end; ++row) {
    if (sequence.generation == nullptr) return;  // the last event is out
    const std::span<const float> logits = runner_.Logits(logit_row++);
    if (row + 1 < prompt) {
      GivePromptToken(sequence, row + 1, logits);
    } else {
      DrawToken(sequence, logits);
    }
  }
}

void Engine::Loop::GivePromptToken(Sequence& sequence, int32_t position,
                                   std::span<const float> logits) {
  const Request& request = sequence.request();
  TokenEvent event = {.token = request.prompt[position], .is_prompt = true};
  if (position > 0) FillLogprobs(logits, event.token, request.top_logprobs, event);
  if (position + 1 == sequence.prompt_tokens() && request.max_tokens == 0) {
    event.finish = FinishReason::kLength;
    event.detail = StopDetail::kMaxTokens;
  }
  Give(sequence, event);
}

void Engine::Loop::DrawToken(Sequence& sequence, std::span<const float> logits) {
  const Request& request = sequence.request();
  TokenEvent event;
  if (request.max_tokens == 0) {
    event.finish = FinishReason::kLength;
    event.detail = StopDetail::kMaxTokens;
    Give(sequence, event);
    return;
  }
  event.token =
      sampler_.Sample(logits, request.sampling, &sequence.counts, sequence.tokens_known());
  if (request.want_logprobs || sequence.scores()) {
    FillLogprobs(logits, event.token, request.top_logprobs, event);
  }
  TellTimes(sequence);
  sequence.tokens.push_back(Index(event.token));
  if (sequence.counts_tokens) sequence.counts.AddOutput(event.token);
  DecideFinish(sequence, event);
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.tokens_generated;
  }
  Give(sequence, event);
}

// A token was drawn in the round that just ended.
void Engine::Loop::TellTimes(Sequence& sequence) {
  Generation& generation = *sequence.generation;
  if (!sequence.first_token.has_value()) {
    sequence.first_token = round_ended_;
    generation.prefill_us_.store(ElapsedUs(sequence.admitted, round_ended_),
                                 std::memory_order_release);
    metrics_.ObservePrediction(sequence.predicted_us, ElapsedUs(sequence.arrived, round_ended_));
  } else if (sequence.tokens_known() == sequence.prompt_tokens() + 1) {
    generation.decode_first_us_.store(ElapsedUs(*sequence.first_token, round_ended_),
                                      std::memory_order_release);
  }
}

void Engine::Loop::DecideFinish(Sequence& sequence, TokenEvent& event) {
  const Request& request = sequence.request();
  const int32_t generated = sequence.tokens_known() - sequence.prompt_tokens();
  const auto& stops = request.stop_tokens;
  const auto finish = [&](FinishReason reason, StopDetail detail) {
    event.finish = reason;
    event.detail = detail;
  };
  if (!request.ignore_eos && std::find(stops.begin(), stops.end(), event.token) != stops.end()) {
    finish(FinishReason::kStop, StopDetail::kNone);
  } else if (generated == request.max_tokens) {
    finish(FinishReason::kLength, StopDetail::kMaxTokens);
  } else if (sequence.tokens_known() == context_max_) {
    finish(FinishReason::kLength, StopDetail::kContext);
  } else if (sequence.tokens_known() > sequence.room.tokens_max()) {
    // The reservation is used up: the drawn token's own keys need a page more.
    if (!sequence.room.Grow()) finish(FinishReason::kLength, StopDetail::kKvRoom);
    // Its first segments may have come with pages that others published.
    sequence.seals_made =
        std::max(sequence.seals_made, sequence.room.segments_kept() * sealing_.layers);
  }
}

void Engine::Loop::Give(Sequence& sequence, const TokenEvent& event) {
  if (event.finish != FinishReason::kNone) {
    Finish(sequence, event);
    return;
  }
  REM_CHECK(sequence.generation->events_.TryPush(event), "the round gave more than there was room");
  NotifyLater(sequence.generation->notifier_);
}

void Engine::Loop::Finish(Sequence& sequence, const TokenEvent& last) {
  if (last.finish != FinishReason::kCancelled) LearnAnswer(sequence);
  sequence.room.Release(sequence.computed());
  sequence.counts.Reset();
  {
    const std::lock_guard lock(stats_mutex_);
    --stats_.running;
    stats_.kv = rooms_.stats();
    ++(last.finish == FinishReason::kCancelled ? stats_.requests_cancelled
                                               : stats_.requests_finished);
  }
  metrics_.CountFinish(last.finish);
  if (last.finish != FinishReason::kCancelled) {
    metrics_.ObserveTimes(sequence.admitted, sequence.first_token, round_ended_);
  }
  PushLast(*std::exchange(sequence.generation, nullptr), last);
}

// How much of the longest answer allowed comes in the end, as an average that fades.
void Engine::Loop::LearnAnswer(const Sequence& sequence) {
  constexpr double kNewest = 0.05;
  const int32_t most = AnswerTokensMax(sequence.request());
  if (most < 1) return;
  const int32_t generated = sequence.tokens_known() - sequence.prompt_tokens() + 1;
  const double share = std::min(1.0, static_cast<double>(generated) / most);
  const double before = answer_share_.load(std::memory_order_relaxed);
  answer_share_.store(before + kNewest * (share - before), std::memory_order_relaxed);
}

void Engine::Loop::FinishWaiting(AdmissionQueue::Entry& entry) {
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.requests_cancelled;
  }
  metrics_.CountFinish(FinishReason::kCancelled);
  entry.generation->queue_us_.store(ElapsedUs(entry.state.arrived, clock_.Now()),
                                    std::memory_order_release);
  PushLast(*std::exchange(entry.generation, nullptr), {.finish = FinishReason::kCancelled});
}

void Engine::Loop::PushLast(Generation& generation, const TokenEvent& last) {
  {
    const std::lock_guard lock(generation.wake_mutex_);
    generation.engine_wake_ = nullptr;
  }
  REM_CHECK(generation.events_.TryPush(last), "the last event's place is taken");
  NotifyLater(generation.notifier_);
}

void Engine::Loop::RemoveFinished() {
  std::erase_if(running_, [this](Sequence* sequence) {
    if (sequence->generation != nullptr) return false;
    free_slots_.push_back(sequence);
    return true;
  });
}

void Engine::Loop::CancelEverything() {
  for (Sequence* sequence : running_) Finish(*sequence, {.finish = FinishReason::kCancelled});
  RemoveFinished();
  queue_.TakeIf([](const AdmissionQueue::Entry&) { return true; }, dropped_);
  for (AdmissionQueue::Entry& entry : dropped_) FinishWaiting(entry);
  dropped_.clear();
  NotifyAll();
}

void Engine::Loop::NotifyLater(Notifier* notifier) {
  if (notifier == nullptr) return;
  if (std::find(to_notify_.begin(), to_notify_.end(), notifier) != to_notify_.end()) return;
  to_notify_.push_back(notifier);
}

void Engine::Loop::NotifyAll() {
  for (Notifier* notifier : to_notify_) notifier->Notify();
  to_notify_.clear();
}

}  // namespace remontoir
