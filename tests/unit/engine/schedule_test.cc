// What the engine tells of scheduling: predictions, refusals, facts of rounds and times.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "fake_model_runner.h"

namespace remontoir {
namespace {

// An engine whose rounds the test runs, and take 10 ms, a millisecond a prompt token and a
// millisecond a row.
class Timed {
 public:
  explicit Timed(EngineOptions options = DefaultOptions(), int32_t page_count = 256)
      : runner_({.rows_max = 512, .sequences_max = 8, .logit_rows_max = 64, .context_max = 8192},
                page_count) {
    options.own_thread = false;
    options.costs = {10'000, 1000, 1000, 0, 0};
    runner_.on_run = [this](std::span<const BatchSequence> batch) {
      int64_t us = 10'000;
      for (const BatchSequence& sequence : batch) {
        us += 1000 * static_cast<int64_t>(sequence.tokens.size());
      }
      if (on_round) on_round();
      clock.AdvanceUs(us);
    };
    auto created = Engine::Create(runner_, clock, options, page_count);
    EXPECT_TRUE(created.ok()) << created.status().message();
    engine = std::move(created).value();
  }

  static EngineOptions DefaultOptions() {
    return {.sequences_max = 8, .queue_max = 32, .round_tokens_max = 512};
  }

  // The generation, taken by the engine or refused by it with the status.
  std::pair<std::shared_ptr<Generation>, Status> Submit(Request request) {
    auto generation = std::make_shared<Generation>(std::move(request), nullptr);
    Status status = engine->Submit(generation);
    return {std::move(generation), std::move(status)};
  }

  std::shared_ptr<Generation> Take(Request request) {
    auto [generation, status] = Submit(std::move(request));
    EXPECT_TRUE(status.ok()) << status.message();
    return generation;
  }

  void RunUntilIdle() {
    while (engine->RunRound().ran) {
    }
  }

  ManualClock clock;
  std::function<void()> on_round;
  std::unique_ptr<Engine> engine;

 private:
  FakeModelRunner runner_;

 public:
  ~Timed() { engine.reset(); }
};

TEST(Prediction, IsWhatComesOfItWhenNobodyElseDoes) {
  Timed timed;
  const auto first = timed.Take(RequestOf(300, 20));
  EXPECT_EQ(first->admission().first_token_us, 330'000);  // three rounds, by the window
  timed.RunUntilIdle();
  EXPECT_EQ(first->times().queue_us + first->times().prefill_us, 330'000);
}

TEST(Deadline, IsRefusedWhenItCannotBeMetAndKeptWhenItCan) {
  Timed timed;
  const auto busy = timed.Take(RequestOf(1000, 1));
  Request hasty = RequestOf(50, 4, 2);
  hasty.first_token_us_max = 300'000;
  const auto [refused, status] = timed.Submit(hasty);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_GT(refused->admission().first_token_us, 300'000);
  EXPECT_GT(refused->admission().retry_us, 0);

  timed.clock.AdvanceUs(refused->admission().retry_us);
  while (timed.engine->stats().running + timed.engine->stats().waiting > 0) {
    timed.engine->RunRound();
  }
  const auto kept = timed.Take(hasty);
  EXPECT_LE(kept->admission().first_token_us, 300'000);
  timed.RunUntilIdle();
  EXPECT_LE(kept->times().queue_us + kept->times().prefill_us, 300'000);
}

TEST(Deadline, SparesOthersTheRefusedRequest) {
  Timed timed;
  const auto busy = timed.Take(RequestOf(1000, 1));
  Request hasty = RequestOf(50, 4, 2);
  hasty.first_token_us_max = 1;
  EXPECT_EQ(timed.Submit(hasty).second.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(timed.engine->stats().waiting, 1);
  timed.RunUntilIdle();
  EXPECT_EQ(timed.engine->stats().requests_finished, 1);
}

TEST(PredictAtLeast, SaysWhatARequestWouldBeTold) {
  Timed timed;
  const auto busy = timed.Take(RequestOf(1000, 1));
  const AdmissionFacts facts = timed.engine->PredictAtLeast(50, 100'000, 0);
  const auto asked = timed.Take(RequestOf(50, 4, 2));
  EXPECT_EQ(facts.first_token_us, asked->admission().first_token_us);
  EXPECT_GT(facts.retry_us, 0);
  EXPECT_EQ(timed.engine->PredictAtLeast(50, 0, 0).retry_us, 0);
}

TEST(QueueFull, AdvisesWhenAPlaceComesFree) {
  EngineOptions options = Timed::DefaultOptions();
  options.sequences_max = 1;
  options.queue_max = 1;
  Timed timed(options);
  const auto running = timed.Take(RequestOf(16, 30));
  timed.engine->RunRound();
  const auto waiting = timed.Take(RequestOf(16, 30, 2));
  const auto [refused, status] = timed.Submit(RequestOf(16, 30, 3));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NEAR(static_cast<double>(refused->admission().retry_us), 29 * 11'000.0, 500);
  EXPECT_EQ(timed.engine->QueueAdviceUs(), refused->admission().retry_us);
  timed.clock.AdvanceUs(100'000);
  EXPECT_EQ(timed.engine->QueueAdviceUs(), refused->admission().retry_us - 100'000);
}

TEST(Placed, IsTrueBeforeTheRoundOfTheFirstToken) {
  Timed timed;
  const auto asked = timed.Take(RequestOf(300, 3));
  std::vector<bool> placed;
  timed.on_round = [&] { placed.push_back(asked->placed()); };
  timed.RunUntilIdle();
  ASSERT_GE(placed.size(), 3U);
  EXPECT_FALSE(placed[0]);
  EXPECT_FALSE(placed[1]);
  EXPECT_TRUE(placed[2]);
  EXPECT_EQ(asked->round().sequences, 1);
  EXPECT_EQ(asked->round().window_ms, 120);
  EXPECT_EQ(asked->round().hold_us, 0);
}

TEST(Placed, CountsWhoSharesTheRound) {
  Timed timed;
  std::vector<std::shared_ptr<Generation>> all;
  for (int i = 0; i < 4; ++i) all.push_back(timed.Take(RequestOf(20, 5, 1 + i)));
  timed.RunUntilIdle();
  for (const auto& each : all) EXPECT_EQ(each->round().sequences, 4);
}

TEST(Times, AreThoseOfTheRounds) {
  Timed timed;
  const auto first = timed.Take(RequestOf(100, 2, 1));
  timed.engine->RunRound();
  const auto second = timed.Take(RequestOf(40, 3, 2));
  timed.clock.AdvanceUs(7'000);
  timed.RunUntilIdle();
  EXPECT_EQ(first->times().queue_us, 0);
  EXPECT_EQ(first->times().prefill_us, 110'000);
  EXPECT_EQ(second->times().queue_us, 7'000);
  EXPECT_EQ(second->times().prefill_us, 51'000);
  EXPECT_EQ(first->times().decode_first_us, 7'000 + 51'000);
  EXPECT_EQ(second->times().decode_first_us, 11'000);
}

TEST(Window, BoundsTheGapsOfARunningStreamWhileALongPromptIsComputed) {
  for (const SchedulingPolicy policy :
       {SchedulingPolicy::kAdaptive, SchedulingPolicy::kImmediate}) {
    SCOPED_TRACE(Name(policy));
    EngineOptions options = Timed::DefaultOptions();
    options.scheduler.policy = policy;
    Timed timed(options);
    const auto stream = timed.Take(RequestOf(16, 400, 1));
    for (int i = 0; i < 3; ++i) timed.engine->RunRound();
    const auto prompt = timed.Take(RequestOf(6000, 2, 2));
    int64_t longest_us = 0;
    int tokens_before = 3;
    while (!prompt->placed()) {
      const TimePoint begin = timed.clock.Now();
      timed.engine->RunRound();
      longest_us = std::max(longest_us, ElapsedUs(begin, timed.clock.Now()));
      int tokens = tokens_before;
      for (TokenEvent event; stream->TryPop(event);) ++tokens;
      EXPECT_GT(tokens, tokens_before) << "every round brings the stream a token";
      tokens_before = tokens;
    }
    EXPECT_LE(longest_us, options.scheduler.window_us_max + 11'000);
    EXPECT_GT(longest_us, 50'000) << "the prompt was in those rounds";
  }
}

TEST(FixedPolicy, HoldsAndSaysSo) {
  EngineOptions options = Timed::DefaultOptions();
  options.scheduler.policy = SchedulingPolicy::kFixed;
  Timed timed(options);
  const auto asked = timed.Take(RequestOf(20, 2));
  const RoundEnd held = timed.engine->RunRound();
  EXPECT_FALSE(held.ran);
  ASSERT_TRUE(held.wake.has_value());
  EXPECT_EQ(held.wake->us, kGateUs);
  timed.clock.AdvanceUs(kGateUs);
  timed.RunUntilIdle();
  EXPECT_EQ(asked->round().hold_us, kGateUs);
  EXPECT_EQ(asked->round().window_ms, 200);
  EXPECT_EQ(asked->times().queue_us, kGateUs);
}

TEST(FixedPolicy, WakesTheEnginesOwnThread) {
  EngineCase c;
  c.options.scheduler.policy = SchedulingPolicy::kFixed;
  FakeModelRunner runner(c.limits, c.page_count);
  const SystemClock clock;
  auto engine = Engine::Create(runner, clock, c.options, c.page_count);
  ASSERT_TRUE(engine.ok());
  Notifier notifier;
  const auto asked = std::make_shared<Generation>(RequestOf(20, 2), &notifier);
  ASSERT_TRUE((*engine)->Submit(asked).ok());
  TokenEvent event;
  while (event.finish == FinishReason::kNone) {
    if (!asked->TryPop(event)) {
      ASSERT_TRUE(notifier.Wait(20'000));
    }
  }
  EXPECT_GE(asked->times().queue_us, kGateUs);
  engine->reset();
}

TEST(Costs, AreLearntFromRounds) {
  EngineOptions options = Timed::DefaultOptions();
  Timed timed(options);
  for (int i = 0; i < 40; ++i) {
    timed.Take(RequestOf(20 + 7 * i, 3 + i % 5, 1 + i));
    timed.RunUntilIdle();
  }
  const CostModel costs = timed.engine->costs();
  EXPECT_NEAR(costs.prefill_token_us, 1000, 20);
  EXPECT_NEAR(costs.round_us + costs.decode_row_us, 11'000, 200);
}

TEST(Priority, LetsALaterRequestJoinFirst) {
  EngineOptions options = Timed::DefaultOptions();
  options.sequences_max = 1;
  Timed timed(options);
  const auto running = timed.Take(RequestOf(16, 3));
  timed.engine->RunRound();
  const auto later = timed.Take(RequestOf(16, 3, 2));
  Request request = RequestOf(16, 3, 3);
  request.priority = -5;
  const auto urgent = timed.Take(request);
  timed.RunUntilIdle();
  EXPECT_LT(urgent->times().queue_us, later->times().queue_us);
}

TEST(Priority, OutOfItsBoundsIsRefused) {
  Timed timed;
  Request request = RequestOf(16, 3);
  request.priority = kPriorityMax + 1;
  EXPECT_EQ(timed.Submit(request).second.code(), StatusCode::kInvalidArgument);
}

TEST(Alone, SharesNoRound) {
  Timed timed;
  Request request = RequestOf(16, 6, 1);
  request.alone = true;
  const auto alone = timed.Take(request);
  const auto shared = timed.Take(RequestOf(16, 6, 2));
  timed.RunUntilIdle();
  EXPECT_EQ(alone->round().sequences, 1);
  EXPECT_EQ(shared->round().sequences, 1);
  EXPECT_EQ(timed.engine->stats().rounds, 12);
}

}  // namespace
}  // namespace remontoir
