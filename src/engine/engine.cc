// What submitters see: the generation's end of the pipe, and the door with its checks.
#include "engine/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "backend/expert_load.h"
#include "engine/loop.h"

namespace remontoir {
namespace {

// Room for every event of a short answer, so that it never pauses; bounded for long ones.
size_t EventCapacity(const Request& request) {
  constexpr int64_t kMax = Generation::kEventsMax;
  const int64_t scored =
      request.kind == RequestKind::kScore ? static_cast<int64_t>(request.prompt.size()) : 0;
  const int64_t generated = request.max_tokens < 0 ? kMax : request.max_tokens;
  return static_cast<size_t>(std::min(scored + generated + 2, kMax));
}

Status CheckOptions(const EngineOptions& options, const RoundLimits& limits,
                    int32_t kv_page_count) {
  const auto refuse = [](const char* name, int32_t value, const std::string& why) {
    return InvalidArgument(std::string(name) + ": " + std::to_string(value) + " " + why);
  };
  const int32_t sequences = options.sequences_max;
  if (sequences < 1 || sequences > limits.sequences_max) {
    return refuse("engine.sequences_max", sequences,
                  "must lie between 1 and " + std::to_string(limits.sequences_max));
  }
  if (options.queue_max < 1) return refuse("engine.queue_max", options.queue_max, "is below 1");
  // Everybody else decodes and one prompt still moves.
  const int32_t rows_needed = sequences - 1 + kChunkGrain;
  if (std::min(options.round_tokens_max, limits.rows_max) < rows_needed) {
    return refuse("engine.round_tokens_max", std::min(options.round_tokens_max, limits.rows_max),
                  "is below the " + std::to_string(rows_needed) + " that " +
                      std::to_string(sequences) + " sequences need");
  }
  if (limits.logit_rows_max < rows_needed) {
    return refuse("logit_rows_max", limits.logit_rows_max,
                  "is below the " + std::to_string(rows_needed) + " that " +
                      std::to_string(sequences) + " sequences need");
  }
  if (options.reserve_tokens_default < 1) {
    return refuse("kv_cache.reserve_tokens_default", options.reserve_tokens_default, "is below 1");
  }
  if (limits.context_max < 1) return refuse("model.context", limits.context_max, "is below 1");
  if (kv_page_count < (options.dynamic ? 0 : 1)) {
    return refuse("kv_page_count", kv_page_count, "is too few");
  }
  if (options.bucket_capacity < 1) {
    return refuse("kv_cache.bucket_capacity", options.bucket_capacity, "is below 1");
  }
  // Scheduling knows a bounded number of classes, and the last one holds the longest sequence.
  if (options.bucket_tokens.size() > size_t{kRoomClassesMax} ||
      (!options.bucket_tokens.empty() && options.bucket_tokens.back() < limits.context_max)) {
    return refuse("kv_cache.prealloc_buckets", static_cast<int32_t>(options.bucket_tokens.size()),
                  "classes: at most " + std::to_string(kRoomClassesMax) +
                      ", the last of them as long as the context");
  }
  return Status::Ok();
}

}  // namespace

Generation::Generation(Request request, Notifier* notifier)
    : request_(std::move(request)), notifier_(notifier), events_(EventCapacity(request_)) {}

bool Generation::TryPop(TokenEvent& event) {
  if (!events_.TryPop(event)) return false;
  // An exchange on both sides: either the engine sees the room that this pop made, or this sees
  // that the engine has paused.
  if (paused_.exchange(false, std::memory_order_acq_rel)) WakeEngine();
  return true;
}

RoomFacts Generation::room() const {
  const int32_t bucket_tokens = bucket_tokens_.load(std::memory_order_acquire);
  return {.dynamic = bucket_tokens == 0,
          .bucket_tokens = bucket_tokens,
          .init_us = room_init_us_.load(std::memory_order_acquire),
          .sparse = sparse_.load(std::memory_order_acquire)};
}

SparseReadings Generation::attention() const {
  return {.far_blocks = far_blocks_.load(std::memory_order_relaxed),
          .chosen_blocks = chosen_blocks_.load(std::memory_order_relaxed),
          .residual_max = residual_max_.load(std::memory_order_relaxed)};
}

AdmissionFacts Generation::admission() const {
  return {.first_token_us = predicted_us_.load(std::memory_order_acquire),
          .retry_us = retry_us_.load(std::memory_order_acquire)};
}

RoundFacts Generation::round() const {
  return {.sequences = round_sequences_.load(std::memory_order_acquire),
          .window_ms = window_ms_.load(std::memory_order_acquire),
          .hold_us = hold_us_.load(std::memory_order_acquire)};
}

GenerationTimes Generation::times() const {
  return {.queue_us = queue_us(),
          .prefill_us = prefill_us_.load(std::memory_order_acquire),
          .decode_first_us = decode_first_us_.load(std::memory_order_acquire)};
}

void Generation::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  WakeEngine();
}

void Generation::WakeEngine() {
  const std::lock_guard lock(wake_mutex_);
  if (engine_wake_ != nullptr) engine_wake_->Notify();
}

Result<std::unique_ptr<Engine>> Engine::Create(ModelRunner& runner, const Clock& clock,
                                               const EngineOptions& options,
                                               int32_t kv_page_count) {
  REM_RETURN_IF_ERROR(CheckOptions(options, runner.limits(), kv_page_count));
  try {
    auto loop = std::make_unique<Loop>(runner, clock, options, kv_page_count);
    if (options.own_thread) loop->Start();
    return std::unique_ptr<Engine>(new Engine(std::move(loop)));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("engine: no memory for " + std::to_string(options.sequences_max) +
                             " sequences");
  } catch (const std::system_error& error) {
    return ResourceExhausted(std::string("engine: no thread: ") + error.what());
  }
}

Engine::Engine(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;

void Engine::Shutdown() { loop_->Shutdown(); }

Status Engine::Submit(std::shared_ptr<Generation> generation) {
  return loop_->Submit(std::move(generation));
}

AdmissionFacts Engine::PredictAtLeast(int32_t prompt_tokens, int64_t first_token_us_max,
                                      int32_t priority) {
  return loop_->PredictAtLeast(prompt_tokens, first_token_us_max, priority);
}
RoundEnd Engine::RunRound() { return loop_->RunRound(); }
int64_t Engine::QueueAdviceUs() const { return loop_->QueueAdviceUs(); }
CostModel Engine::costs() const { return loop_->costs(); }

EngineStats Engine::stats() const { return loop_->stats(); }
const MetricSet& Engine::metrics() { return loop_->metrics(); }
const MetricSet* Engine::expert_metrics() const { return loop_->runner().expert_load(); }
int32_t Engine::context_max() const { return loop_->runner().limits().context_max; }
int32_t Engine::vocabulary_size() const { return loop_->runner().shape().vocabulary_size; }

}  // namespace remontoir
