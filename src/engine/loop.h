// The engine's thread: admits, runs rounds, hands out tokens.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/admission_queue.h"
#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/room.h"
#include "engine/sequence.h"
#include "model/model_runner.h"
#include "sampling/sampler.h"
#include "scheduler/arrival_load.h"
#include "scheduler/rollout.h"
#include "scheduler/scheduler.h"

namespace remontoir {

class Engine::Loop {
 public:
  Loop(ModelRunner& runner, const Clock& clock, const EngineOptions& options,
       int32_t kv_page_count);
  ~Loop() { Shutdown(); }

  void Start();
  void Shutdown();
  Status Submit(std::shared_ptr<Generation> generation);
  AdmissionFacts PredictAtLeast(int32_t prompt_tokens, int64_t first_token_us_max,
                                int32_t priority);
  EngineStats stats();
  const MetricSet& metrics();
  const ModelRunner& runner() const { return runner_; }
  RoundEnd RunRound();
  CostModel costs() const;
  int64_t QueueAdviceUs() const;

 private:
  void Run();
  int MsUntil(TimePoint point) const;

  // The start of a round. (admit.cc)
  void DropCancelled();
  void DescribeState(TimePoint now, SchedulerState& state);
  void DescribeRunning(SchedulerState& state);
  void DescribeWaiting(SchedulerState& state);
  ArrivalForecast ForecastAt(TimePoint now);
  // What a request may generate, or is given room for where it doesn't say.
  int32_t AnswerTokensMax(const Request& request) const;
  int32_t ExpectedAnswer(const Request& request, int32_t generated) const;
  int64_t HoldUs(TimePoint arrived) const;
  void TellPlaced();
  // What Submit's predictions start from: the running sequences, and what the round under way
  // computes of them.
  void PublishView(std::span<const RoundShare> shares, TimePoint ends);
  void Admit(TimePoint now);
  // tokens_matched: in the prefix cache, when the round was planned.
  void AdmitOne(TimePoint now, int32_t tokens_matched, AdmissionQueue::Entry& entry);
  bool IsStale(const RoundShare& share) const;
  void DropStaleShares();
  static SequenceProgress ProgressOf(const Generation& generation, int32_t tokens_known,
                                     int32_t tokens_computed);
  static void PauseIfFull(Generation& generation, SequenceProgress& progress);

  // The round itself. (loop.cc)
  void RunBatch();
  void EndRound(TimePoint begin, const ThreadCosts& costs_before);

  // What comes of it. (commit.cc)
  void Commit();
  // place: in the batch.
  void AddReadings(const Sequence& sequence, const RoundShare& share, int32_t place);
  // logit_row: the round's number of its first wanted row.
  void CommitShare(Sequence& sequence, const RoundShare& share, int32_t logit_row);
  // logits: of the row before; empty for position 0.
  void GivePromptToken(Sequence& sequence, int32_t position, std::span<const float> logits);
  void DrawToken(Sequence& sequence, std::span<const float> logits);
  void DecideFinish(Sequence& sequence, TokenEvent& event);
  void TellTimes(Sequence& sequence);
  void LearnAnswer(const Sequence& sequence);
  // Hands the event out; one with a finish ends the sequence and frees its room before.
  void Give(Sequence& sequence, const TokenEvent& event);
  void Finish(Sequence& sequence, const TokenEvent& last);
  void FinishWaiting(AdmissionQueue::Entry& entry);
  void PushLast(Generation& generation, const TokenEvent& last);
  void RemoveFinished();
  void CancelEverything();
  void NotifyLater(Notifier* notifier);
  void NotifyAll();

  ModelRunner& runner_;
  const Clock& clock_;
  const EngineOptions options_;
  const int32_t context_max_;
  const RoundBounds bounds_;
  const SealingRules sealing_;

  AdmissionQueue queue_;
  Notifier wake_;
  std::atomic<bool> stopping_{false};

  // What a newcomer would meet. (submit.cc)
  RolloutEnd Predict(TimePoint now, const SequenceState& newcomer);
  AdmissionFacts FactsOf(TimePoint now, const SequenceState& newcomer, int64_t first_token_us,
                         int64_t first_token_us_max);
  SequenceState Describe(TimePoint now, const Generation& generation);
  Status Decide(AdmissionQueue::Entry& entry);

  // Arrivals foretold, one at a time. Locked before state_mutex_.
  std::mutex forecast_mutex_;
  Rollout forecaster_;
  RolloutStart forecast_start_;
  std::vector<SequenceState> forecast_running_, forecast_waiting_;
  std::vector<RoomClass> forecast_classes_;
  ArrivalLoad load_;
  std::atomic<int64_t> next_join_us_{0};  // on the clock, as last predicted

  std::mutex predictor_mutex_;  // innermost
  std::optional<ArrivalPredictor> predictor_;

  std::atomic<double> answer_share_{1.0};  // of the longest answer allowed that is generated

  // Held by the loop while it chooses a round and while it takes in what came of one, by a
  // submitter while it looks around. What the view points to, and all that follows.
  mutable std::mutex state_mutex_;
  RolloutStart view_;

  // Everything below is changed by the loop's thread alone, and is taken before it starts.
  RoomSource rooms_;
  Sampler sampler_;
  std::deque<Sequence> slots_;
  std::vector<Sequence*> free_slots_;
  std::vector<Sequence*> running_;  // in order of admission
  CostFit fit_;
  SchedulerState state_;
  Round round_;
  std::vector<SequenceState> waiting_states_, running_states_;
  std::vector<BatchSequence> batch_;
  std::vector<AdmissionQueue::Entry> dropped_;
  std::vector<AdmissionQueue::Entry> admitted_;
  std::vector<Notifier*> to_notify_;
  TimePoint round_ended_;     // the last one
  ThreadCosts worker_costs_;  // as of the end of the last one
  bool warm_ = false;         // it wasn't the first

  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  EngineMetrics metrics_;

  std::mutex thread_mutex_;
  std::thread thread_;
};

}  // namespace remontoir
