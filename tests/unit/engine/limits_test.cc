// Named bounds and the answers when they are met: options, lengths, the queue, KV room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "engine_fixture.h"
#include "scheduler/scheduler.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

TEST(EngineCreate, NamesTheOptionThatTheLimitsDontAllow) {
  const struct {
    std::string option;
    void (*set)(EngineCase&);
  } cases[] = {
      {"engine.sequences_max", [](EngineCase& c) { c.options.sequences_max = 0; }},
      {"engine.sequences_max", [](EngineCase& c) { c.options.sequences_max = 9; }},
      {"engine.queue_max", [](EngineCase& c) { c.options.queue_max = 0; }},
      {"engine.round_tokens_max", [](EngineCase& c) { c.options.round_tokens_max = 14; }},
      {"engine.round_tokens_max", [](EngineCase& c) { c.limits.rows_max = 14; }},
      {"logit_rows_max", [](EngineCase& c) { c.limits.logit_rows_max = 14; }},
      {"reserve_tokens_default", [](EngineCase& c) { c.options.reserve_tokens_default = 0; }},
      {"model.context", [](EngineCase& c) { c.limits.context_max = 0; }},
      {"kv_page_count", [](EngineCase& c) { c.page_count = 0; }},
  };
  for (const auto& c : cases) {
    EngineCase engine_case;
    c.set(engine_case);
    FakeModelRunner runner(engine_case.limits, 1);
    const ManualClock clock;
    const auto created = Engine::Create(runner, clock, engine_case.options, engine_case.page_count);
    ASSERT_FALSE(created.ok()) << c.option;
    EXPECT_EQ(created.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(created.status().message(), HasSubstr(c.option));
  }
}

TEST(EngineSubmit, RefusesWhatCanNeverRun) {
  const struct {
    std::string message;
    Request request;
    void (*change)(Request&);
  } cases[] = {
      {"prompt", RequestOf(0, 1), [](Request&) {}},
      {"token 61", RequestOf(3, 1), [](Request& r) { r.prompt[1] = TokenId(61); }},
      {"token -1", RequestOf(3, 1), [](Request& r) { r.prompt[1] = kNoToken; }},
      {"max_tokens", RequestOf(3, -2), [](Request&) {}},
      {"top_logprobs", RequestOf(3, 1), [](Request& r) { r.top_logprobs = 21; }},
      {"top_logprobs", RequestOf(3, 1), [](Request& r) { r.top_logprobs = -1; }},
      {"temperature", RequestOf(3, 1), [](Request& r) { r.sampling.temperature = -1; }},
      {"logit_bias", RequestOf(3, 1),
       [](Request& r) {
         r.sampling.logit_bias = {{TokenId(99), 1}};
       }},
      {"token limit exceeded", RequestOf(500, 13), [](Request&) {}},
      {"token limit exceeded", RequestOf(512, -1), [](Request&) {}},
      {"token limit exceeded", RequestOf(513, 0), [](Request&) {}},
      {"context has 512", RequestOf(1, 2147483647), [](Request&) {}},
  };
  EngineUnderTest test;
  test.Start();
  for (const auto& c : cases) {
    Request request = c.request;
    c.change(request);
    const Status status =
        test.engine->Submit(std::make_shared<Generation>(std::move(request), nullptr));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
  EXPECT_EQ(test.RunAlone(RequestOf(500, 12)), ExpectedEvents(RequestOf(500, 12), 512));
  EXPECT_EQ(test.RunAlone(RequestOf(511, -1)), ExpectedEvents(RequestOf(511, -1), 512));
}

TEST(EngineSubmit, RefusesWhatAllKvRoomCantHold) {
  EngineCase c;
  c.page_count = 3;
  EngineUnderTest test(c);
  test.Start();
  const Status status =
      test.engine->Submit(std::make_shared<Generation>(RequestOf(100, 93), nullptr));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("token limit exceeded"));
  EXPECT_THAT(status.message(), HasSubstr("KV room together has 192"));
  EXPECT_EQ(test.RunAlone(RequestOf(100, 92)), ExpectedEvents(RequestOf(100, 92), 512));
}

TEST(EngineSubmit, RefusesTheSameGenerationTwice) {
  EngineUnderTest test;
  Status second;
  std::shared_ptr<Generation> generation;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    second = test.engine->Submit(generation);
  };
  test.Start();
  generation = std::make_shared<Generation>(RequestOf(3, 1), &test.notifier);
  ASSERT_TRUE(test.engine->Submit(generation).ok());
  EXPECT_EQ(test.Collect(*generation).size(), 1u);
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
}

TEST(EngineSubmit, RefusesWhenTheQueueIsFullAndTakesAgainLater) {
  EngineCase c;
  c.options.sequences_max = 1;
  c.options.queue_max = 2;
  EngineUnderTest test(c);
  std::vector<std::shared_ptr<Generation>> queued;
  const auto refused = std::make_shared<Generation>(RequestOf(4, 4, 9), &test.notifier);
  bool first_round = true;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    if (!std::exchange(first_round, false)) return;
    queued.push_back(test.Submit(RequestOf(4, 4, 7)));
    queued.push_back(test.Submit(RequestOf(4, 4, 8)));
    const Status status = test.engine->Submit(refused);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("engine.queue_max"));
  };
  test.Start();
  EXPECT_EQ(test.RunAlone(RequestOf(4, 4, 6)).size(), 4u);
  EXPECT_EQ(test.Collect(*queued[0]), ExpectedEvents(RequestOf(4, 4, 7), 512));
  EXPECT_EQ(test.Collect(*queued[1]), ExpectedEvents(RequestOf(4, 4, 8), 512));
  ASSERT_TRUE(test.engine->Submit(refused).ok());
  EXPECT_EQ(test.Collect(*refused), ExpectedEvents(RequestOf(4, 4, 9), 512));
}

TEST(KvRoom, GrowsBeyondTheReservationAndEndsWhenNoPageIsFree) {
  EngineCase c;
  c.page_count = 4;
  c.options.reserve_tokens_default = 64;
  EngineUnderTest test(c);
  test.Start();
  const Request request = RequestOf(64, -1);
  std::vector<TokenEvent> expected = ExpectedEvents(request, 512);
  expected.resize(4 * 64 + 1 - 64);  // the last token needs no keys of its own
  expected.back().finish = FinishReason::kLength;
  expected.back().detail = StopDetail::kKvRoom;
  EXPECT_EQ(test.RunAlone(request), expected);
  test.ExpectEmpty();
}

TEST(KvRoom, WhoWaitsForPagesIsOvertakenForABoundedTime) {
  for (const bool waited_long : {false, true}) {
    SCOPED_TRACE(waited_long);
    EngineCase c;
    c.page_count = 4;
    EngineUnderTest test(c);
    std::vector<std::shared_ptr<Generation>> later;
    std::vector<int32_t> running;
    test.runner.on_run = [&](std::span<const BatchSequence> batch) {
      if (later.empty()) {
        later.push_back(test.Submit(RequestOf(100, 100, 2)));  // four pages: must wait
        later.push_back(test.Submit(RequestOf(10, 10, 3)));    // one page: would fit
        if (waited_long) test.clock.AdvanceUs(kOvertakenUsMax);
      }
      running.push_back(static_cast<int32_t>(batch.size()));
    };
    test.Start();
    EXPECT_EQ(test.RunAlone(RequestOf(100, 10)), ExpectedEvents(RequestOf(100, 10), 512));
    EXPECT_EQ(test.Collect(*later[0]), ExpectedEvents(RequestOf(100, 100, 2), 512));
    EXPECT_EQ(test.Collect(*later[1]), ExpectedEvents(RequestOf(10, 10, 3), 512));
    EXPECT_EQ(std::ranges::count(running, 2) > 0, !waited_long);
    EXPECT_EQ(std::ranges::count(running, 1) > 0, true);
  }
}

// A clock that counts how often it is read.
class CountingClock final : public Clock {
 public:
  TimePoint Now() const override { return {++reads_}; }
  int64_t UnixSeconds() const override { return 0; }
  int64_t reads() const { return reads_; }

 private:
  mutable std::atomic<int64_t> reads_{0};
};

TEST(Idle, SleepsWithoutPolling) {
  const EngineCase c;
  FakeModelRunner runner(c.limits, c.page_count);
  CountingClock clock;
  Notifier notifier;
  const auto engine = std::move(Engine::Create(runner, clock, c.options, c.page_count)).value();
  const auto generation = std::make_shared<Generation>(RequestOf(4, 4), &notifier);
  ASSERT_TRUE(engine->Submit(generation).ok());
  // Sooner or later nobody reads the clock for a while; a loop that polls always does.
  bool asleep = false;
  for (int i = 0; i < 100 && !asleep; ++i) {
    const int64_t before = clock.reads();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    asleep = engine->stats().requests_finished == 1 && clock.reads() == before;
  }
  EXPECT_TRUE(asleep);
}

TEST(QueueTime, IsMeasuredFromSubmitToAdmission) {
  EngineCase c;
  c.options.sequences_max = 1;
  EngineUnderTest test(c);
  std::shared_ptr<Generation> second;
  int round = 0;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    if (++round == 1) second = test.Submit(RequestOf(2, 1));
    if (round <= 3) test.clock.AdvanceUs(1000);
  };
  test.Start();
  const auto first = test.Submit(RequestOf(2, 3));
  (void)test.Collect(*first);
  (void)test.Collect(*second);
  EXPECT_EQ(first->queue_us(), 0);
  EXPECT_EQ(second->queue_us(), 3000);
}

}  // namespace
}  // namespace remontoir
