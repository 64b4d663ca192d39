// The way in: what can never run is refused here, with the reason.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/loop.h"
#include "scheduler/sealing.h"

namespace remontoir {
namespace {

Status CheckLength(const Request& request, int64_t context_max, int64_t kv_tokens_max) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  // Without max_tokens at least one token must fit.
  const int64_t generated = request.max_tokens < 0 ? 1 : request.max_tokens;
  const int64_t room = std::min(context_max, kv_tokens_max);
  if (prompt + generated <= room) return Status::Ok();
  return InvalidArgument(
      "token limit exceeded: a prompt of " + std::to_string(prompt) + " tokens and " +
      std::to_string(generated) + " to generate make " + std::to_string(prompt + generated) +
      ", but " +
      (context_max <= kv_tokens_max ? "the model's context has " : "all KV room together has ") +
      std::to_string(room));
}

Status CheckRequest(const Request& request, int32_t vocabulary_size) {
  if (request.prompt.empty()) return InvalidArgument("prompt: must hold at least one token");
  for (const TokenId token : request.prompt) {
    if (Index(token) < 0 || Index(token) >= vocabulary_size) {
      return InvalidArgument("prompt: token " + std::to_string(Index(token)) +
                             " is not in the vocabulary of " + std::to_string(vocabulary_size));
    }
  }
  if (request.priority < kPriorityMin || request.priority > kPriorityMax) {
    return InvalidArgument("priority: must lie between " + std::to_string(kPriorityMin) + " and " +
                           std::to_string(kPriorityMax));
  }
  if (request.first_token_us_max < 0) {
    return InvalidArgument("first_token_us_max: must not be negative");
  }
  if (request.max_tokens < -1) return InvalidArgument("max_tokens: must not be negative");
  if (request.top_logprobs < 0 || request.top_logprobs > kTopLogprobsMax) {
    return InvalidArgument("top_logprobs: must lie between 0 and " +
                           std::to_string(kTopLogprobsMax));
  }
  return ValidateSamplingParams(request.sampling, vocabulary_size);
}

}  // namespace

RolloutEnd Engine::Loop::Predict(TimePoint now, const SequenceState& newcomer) {
  {
    const std::lock_guard lock(state_mutex_);
    forecast_start_ = view_;
    forecast_running_.assign(view_.state.running.begin(), view_.state.running.end());
    forecast_classes_.assign(view_.state.classes.begin(), view_.state.classes.end());
    forecast_waiting_.clear();
    queue_.ForEach(
        [&](const AdmissionQueue::Entry& entry) { forecast_waiting_.push_back(entry.state); });
  }
  forecast_start_.state.running = forecast_running_;
  forecast_start_.state.classes = forecast_classes_;
  forecast_start_.state.waiting = forecast_waiting_;
  return forecaster_.Run(now, forecast_start_, newcomer);
}

int64_t Engine::Loop::QueueAdviceUs() const {
  return std::max<int64_t>(0, next_join_us_.load(std::memory_order_relaxed) - clock_.Now().us);
}

AdmissionFacts Engine::Loop::PredictAtLeast(int32_t prompt_tokens, int64_t first_token_us_max,
                                            int32_t priority) {
  const TimePoint now = clock_.Now();
  SequenceState newcomer;
  newcomer.arrived = now;
  newcomer.progress = {.prompt_tokens = prompt_tokens,
                       .tokens_known = prompt_tokens,
                       .logits_begin = prompt_tokens - 1};
  newcomer.priority = priority;
  const std::lock_guard lock(forecast_mutex_);
  return FactsOf(now, newcomer, Predict(now, newcomer).first_token_us, first_token_us_max);
}

// Of Predict's answer, right after it. forecast_mutex_ is held.
AdmissionFacts Engine::Loop::FactsOf(TimePoint now, const SequenceState& newcomer,
                                     int64_t first_token_us, int64_t first_token_us_max) {
  AdmissionFacts facts{.first_token_us = first_token_us};
  if (first_token_us_max > 0 && first_token_us > first_token_us_max) {
    const int64_t us = forecaster_.WhenWithin(now, forecast_start_, newcomer, first_token_us_max);
    facts.retry_us = RetryAfterUs(us, load_.Share(now));
  }
  return facts;
}

SequenceState Engine::Loop::Describe(TimePoint now, const Generation& generation) {
  const Request& request = generation.request();
  const std::lock_guard lock(state_mutex_);
  const PrefixMatch match = rooms_.Match(request);
  SequenceProgress progress =
      ProgressOf(generation, static_cast<int32_t>(request.prompt.size()), match.tokens());
  progress.seals_made = rooms_.SegmentsKept(request, match) * sealing_.layers;
  return {.arrived = now,
          .progress = progress,
          .room = rooms_.NeedOf(request, match),
          .priority = request.priority,
          .alone = request.alone,
          .answer_tokens = ExpectedAnswer(request, 0),
          .sparse = rooms_.SegmentsFor(request, rooms_.TokensToReserve(request)) > 0};
}

// Predicts the first token of the entry and takes it into the queue, or says why not.
// forecast_mutex_ is held, so that entries stand in order of arrival.
Status Engine::Loop::Decide(AdmissionQueue::Entry& entry) {
  const TimePoint now = entry.state.arrived;
  Generation& generation = *entry.generation;
  const int64_t allowed_us = generation.request().first_token_us_max;
  const RolloutEnd end = Predict(now, entry.state);
  const AdmissionFacts facts = FactsOf(now, entry.state, end.first_token_us, allowed_us);
  entry.first_token_us = facts.first_token_us;
  next_join_us_.store(now.us + end.admission_us, std::memory_order_relaxed);
  generation.predicted_us_.store(facts.first_token_us, std::memory_order_release);
  generation.retry_us_.store(facts.retry_us, std::memory_order_release);
  if (facts.retry_us > 0) {
    return DeadlineExceeded("the first token would come after " +
                            std::to_string(facts.first_token_us / 1000) + " ms, and " +
                            std::to_string(allowed_us / 1000) + " ms are allowed");
  }
  const SequenceState state = entry.state;
  const Status pushed = queue_.Push(entry);
  if (pushed.code() == StatusCode::kResourceExhausted) {
    // A place comes free when somebody joins.
    generation.retry_us_.store(end.admission_us, std::memory_order_release);
  }
  if (pushed.ok()) {
    const CostModel& costs = forecast_start_.state.costs;
    load_.Add(now,
              costs.round_us + ShareUs(state, sealing_, costs, state.progress.tokens_pending()));
  }
  return pushed;
}

Status Engine::Loop::Submit(std::shared_ptr<Generation> generation) {
  const Request& request = generation->request();
  REM_RETURN_IF_ERROR(CheckRequest(request, runner_.shape().vocabulary_size));
  REM_RETURN_IF_ERROR(
      CheckLength(request, context_max_, rooms_.tokens_max(rooms_.IsDynamic(request))));
  {
    const std::lock_guard lock(generation->wake_mutex_);
    if (generation->engine_wake_ != nullptr) return FailedPrecondition("submitted twice");
    generation->engine_wake_ = &wake_;
  }
  const std::lock_guard forecast_lock(forecast_mutex_);
  const SequenceState state = Describe(clock_.Now(), *generation);
  AdmissionQueue::Entry entry{std::move(generation), state};
  {
    const std::lock_guard lock(predictor_mutex_);
    if (predictor_.has_value()) {
      predictor_->Arrived(state.arrived, state.progress.prompt_tokens);
    }
  }
  const Status pushed = Decide(entry);
  if (!pushed.ok()) {
    Generation& refused = *entry.generation;  // a refused push leaves the entry alone
    const std::lock_guard lock(refused.wake_mutex_);
    refused.engine_wake_ = nullptr;
    return pushed;
  }
  wake_.Notify();
  return Status::Ok();
}

}  // namespace remontoir
