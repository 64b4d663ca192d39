// The token side's conductor: one loop of mixed prefill/decode rounds over all sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/notifier.h"
#include "base/spsc_ring.h"
#include "base/status.h"
#include "base/thread_counters.h"
#include "engine/request.h"
#include "engine/token_event.h"
#include "kv/kv_pool.h"
#include "predictor/arrival_predictor.h"
#include "scheduler/cost_model.h"
#include "scheduler/policy.h"

namespace remontoir {

class MetricSet;
class ModelRunner;

// The room that a sequence got.
struct RoomFacts {
  bool dynamic = false;
  int32_t bucket_tokens = 0;  // length of its class; 0: dynamic
  int64_t init_us = 0;        // from the decision to admit it to usable room
  bool sparse = false;        // rows that come far enough are attended to sparsely
};

// What admission said.
struct AdmissionFacts {
  int64_t first_token_us = 0;  // predicted, from arrival
  int64_t retry_us = 0;        // when refused: after so long a retry should be let in
};

// The round that computes a sequence's first token.
struct RoundFacts {
  int32_t sequences = 0;  // in it
  int32_t window_ms = 0;  // its time budget, or what the policy's gate waits for
  int64_t hold_us = 0;    // that the sequence was held back on purpose before it could join
};

struct GenerationTimes {
  int64_t queue_us = 0;         // from arrival to admission
  int64_t prefill_us = 0;       // from admission to the first token
  int64_t decode_first_us = 0;  // from the first token to the second
};

// The end of a sequence's pipe that its owner holds: events out, cancel in. Made by the owner
// before Submit, so that the engine allocates nothing for it. One consumer thread; submitted once.
class Generation {
 public:
  // `notifier` (may be null) is notified after every round that pushed events or ended the
  // sequence; it must outlive the engine.
  Generation(Request request, Notifier* notifier);

  const Request& request() const { return request_; }

  // Next event, oldest first. After one whose finish isn't kNone there are no more. A sequence
  // whose events nobody takes stands still once kEventsMax of them wait, and keeps its room.
  bool TryPop(TokenEvent& event);

  // Any thread, any time, more than once. The sequence's room is free within one round; its last
  // event says kCancelled unless it ended before.
  void Cancel();

  // True once it has its room: then queue_us(), cached_tokens() and room() are known. The notifier
  // isn't notified of it.
  bool admitted() const { return admitted_.load(std::memory_order_acquire); }
  // Facts for headers and usage, valid once admitted() or the first event was popped.
  int64_t queue_us() const { return queue_us_.load(std::memory_order_acquire); }
  int32_t cached_tokens() const { return cached_tokens_.load(std::memory_order_acquire); }
  RoomFacts room() const;
  // Valid once Submit returned, also when it refused.
  AdmissionFacts admission() const;
  // True from the start of the round that computes its first token: then room() and round() are
  // known. The notifier is notified when it becomes true.
  bool placed() const { return placed_.load(std::memory_order_acquire); }
  RoundFacts round() const;
  // What its sparse rows read so far; its last ones are counted once their token was popped.
  SparseReadings attention() const;
  // Each is known once its token was popped.
  GenerationTimes times() const;

  static constexpr int32_t kEventsMax = 1024;

 private:
  friend class Engine;

  void WakeEngine();

  const Request request_;
  Notifier* const notifier_;
  SpscRing<TokenEvent> events_;      // one place is kept free for the last event
  std::atomic<bool> paused_{false};  // the engine waits until events_ has room
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> queue_us_{0};
  std::atomic<int32_t> cached_tokens_{0};
  std::atomic<int32_t> bucket_tokens_{0};
  std::atomic<int64_t> room_init_us_{0};
  std::atomic<bool> sparse_{false};
  std::atomic<bool> admitted_{false};
  std::atomic<int64_t> far_blocks_{0};
  std::atomic<int64_t> chosen_blocks_{0};
  std::atomic<float> residual_max_{0};
  std::atomic<int64_t> predicted_us_{0};
  std::atomic<int64_t> retry_us_{0};
  std::atomic<bool> placed_{false};
  std::atomic<int32_t> round_sequences_{0};
  std::atomic<int32_t> window_ms_{0};
  std::atomic<int64_t> hold_us_{0};
  std::atomic<int64_t> prefill_us_{0};
  std::atomic<int64_t> decode_first_us_{0};
  std::mutex wake_mutex_;
  Notifier* engine_wake_ = nullptr;  // while the engine holds the sequence
};

struct EngineOptions {
  int32_t sequences_max = 8;  // in flight at once
  int32_t queue_max = 256;    // waiting at once; more are refused
  int32_t round_tokens_max = 512;
  int32_t reserve_tokens_default = 1024;  // room for a request without max_tokens
  bool dynamic = false;                   // every request's room comes from the system
  // Lengths of the classes of room, ascending; empty: one, of the whole context.
  std::vector<int32_t> bucket_tokens = {};
  int32_t bucket_capacity = 32;  // of one class out at once
  SchedulerOptions scheduler = {};
  CostModel costs = {};                            // of rounds, until some were measured
  std::optional<ArrivalPredictor> predictor = {};  // none: nobody is expected
  // False: no thread is started; the caller runs the rounds.
  bool own_thread = true;
};

// What became of a call to Engine::RunRound.
struct RoundEnd {
  bool ran = false;  // a round was computed, or somebody joined: call again
  // Nothing can run before this point unless something arrives; unset: not before then at all.
  std::optional<TimePoint> wake = {};
};

struct EngineStats {
  int32_t running = 0;
  int32_t waiting = 0;
  KvStats kv;
  int64_t rounds = 0;
  int64_t tokens_prefilled = 0;
  int64_t tokens_generated = 0;
  int64_t requests_finished = 0;
  int64_t requests_cancelled = 0;
  // Sparse attention, since the start.
  int64_t sparse_rows = 0;
  int64_t seals = 0;       // segments sealed, times layers
  int32_t seals_each = 0;  // of a segment
  int64_t far_blocks = 0;
  int64_t chosen_blocks = 0;
  float residual_max = 0;
  // Of the loop and the workers, in rounds that had something to do: what the system and the heap
  // were asked for between a sequence's admission and its last token. The first round is warm-up
  // and not among them.
  ThreadCosts path_costs;

  // Of the predictor; see ArrivalPredictor.
  bool forecast_falls_back = false;
  double forecast_lstm_score = 0;  // nats a tick, higher is better
  double forecast_ewma_score = 0;
  double forecast_lstm_weight = 0;
  double arrivals_expected = 0;  // in the next 100 ms

  // That nobody holds: empty, or in the prefix cache alone.
  int32_t kv_pages_unheld() const { return kv.pages_free + kv.pages_cached; }
};

class Engine {
 public:
  // The runner and the clock must outlive the engine, and only the engine runs the runner.
  // kv_page_count: pages the backend holds. Takes all memory that the loop will use and starts its
  // thread. kInvalidArgument names the option that the runner's limits don't allow.
  static Result<std::unique_ptr<Engine>> Create(ModelRunner& runner, const Clock& clock,
                                                const EngineOptions& options,
                                                int32_t kv_page_count);
  ~Engine();  // shuts down

  // Refuses new requests, ends waiting and running sequences with kCancelled, returns when the loop
  // has ended. Any thread, more than once.
  void Shutdown();

  // Any thread. kInvalidArgument: the request can never run (empty prompt, token out of the
  // vocabulary, prompt + max_tokens beyond context_max or beyond all KV room: the message says
  // which, and contains "token limit exceeded" where the length is the reason);
  // kResourceExhausted: the queue is full; kDeadlineExceeded: its first token would come later than
  // the request allows, Generation::admission says when; kUnavailable: shutting down.
  Status Submit(std::shared_ptr<Generation> generation);

  // One round, if there is something to run, in the calling thread; always the same one, and only
  // with EngineOptions::own_thread false.
  RoundEnd RunRound();

  // The costs as learnt so far. Any thread.
  CostModel costs() const;

  // What a request of so many tokens, none of them cached, would be told if it came now; retry_us
  // where its first token would come later than first_token_us_max. A bound from below for prompts
  // that are at least as long. Any thread.
  AdmissionFacts PredictAtLeast(int32_t prompt_tokens, int64_t first_token_us_max,
                                int32_t priority);

  // Until somebody who waits is expected to join, as the last prediction saw it: when a full queue
  // takes another request. Any thread, at no cost.
  int64_t QueueAdviceUs() const;

  EngineStats stats() const;                // any thread; a snapshot after the last round
  const MetricSet& metrics();               // any thread; up to date when it returns
  const MetricSet* expert_metrics() const;  // any thread; null: the model has no experts
  int32_t context_max() const;
  int32_t vocabulary_size() const;

 private:
  class Loop;
  explicit Engine(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace remontoir
