// Whoever leaves frees their room within one round and changes nobody's tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "engine_fixture.h"

namespace remontoir {
namespace {

// `events` begins like `expected` and then says kCancelled.
void ExpectCancelledPrefix(const std::vector<TokenEvent>& events,
                           const std::vector<TokenEvent>& expected) {
  ASSERT_FALSE(events.empty());
  const TokenEvent last = {.finish = FinishReason::kCancelled};
  EXPECT_EQ(events.back(), last);
  ASSERT_LE(events.size() - 1, expected.size());
  EXPECT_TRUE(std::equal(events.begin(), events.end() - 1, expected.begin()));
}

// The leaver has the only prompt of 300 tokens; its neighbours stay below position 100.
bool IsLeaver(const BatchSequence& sequence) { return sequence.first_position > 100; }

TEST(Cancel, FreesTheRoomWithinOneRoundAndChangesNobodysTokens) {
  const struct {
    std::string when;
    int32_t from_position;  // cancels in the round that computes a position from here on
  } cases[] = {{"in prefill", 150}, {"in decode", 303}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.when);
    EngineUnderTest test;
    const Request leaver_request = RequestOf(300, 150, 100);
    const auto leaver = std::make_shared<Generation>(leaver_request, &test.notifier);
    std::vector<Request> requests;
    for (int i = 0; i < 7; ++i) requests.push_back(RequestOf(10 + i, 80, i));
    std::vector<std::shared_ptr<Generation>> neighbours;
    int rounds_after = -1;
    test.runner.on_run = [&](std::span<const BatchSequence> batch) {
      if (neighbours.size() == 1) {  // in the first round, so that all run beside each other
        for (int i = 1; i < 7; ++i) neighbours.push_back(test.Submit(requests[i]));
        EXPECT_TRUE(test.engine->Submit(leaver).ok());
      }
      if (rounds_after >= 0) {
        ++rounds_after;
        EXPECT_TRUE(std::none_of(batch.begin(), batch.end(), IsLeaver));
        const EngineStats stats = test.engine->stats();
        EXPECT_EQ(stats.requests_cancelled, 1);
        EXPECT_GE(stats.kv_pages_unheld(), 64 - 7 * 2);
        return;
      }
      for (const BatchSequence& sequence : batch) {
        if (sequence.first_position < c.from_position) continue;
        EXPECT_EQ(test.engine->stats().running, 8);
        leaver->Cancel();
        leaver->Cancel();
        rounds_after = 0;
      }
    };
    test.Start();
    neighbours.push_back(std::make_shared<Generation>(requests[0], &test.notifier));
    ASSERT_TRUE(test.engine->Submit(neighbours[0]).ok());
    ExpectCancelledPrefix(test.Collect(*leaver), ExpectedEvents(leaver_request, 512));
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(test.Collect(*neighbours[i]), ExpectedEvents(requests[i], 512));
    }
    test.ExpectEmpty();
    EXPECT_GT(rounds_after, 0);
    EXPECT_EQ(test.engine->stats().requests_finished, 7);
  }
}

TEST(Cancel, TakesAWaitingSequenceOutOfTheQueue) {
  EngineCase c;
  c.options.sequences_max = 1;
  EngineUnderTest test(c);
  std::shared_ptr<Generation> waiting[3];
  int round = 0;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    ++round;
    if (round == 1) {  // all three are behind the first
      for (int i = 0; i < 3; ++i) waiting[i] = test.Submit(RequestOf(5, 5, 50 + i));
    }
    if (round == 2) {
      EXPECT_EQ(test.engine->stats().waiting, 3);
      waiting[1]->Cancel();
    }
    if (round == 3) {
      EXPECT_EQ(test.engine->stats().waiting, 2);
      EXPECT_EQ(test.engine->stats().requests_cancelled, 1);
    }
  };
  test.Start();
  EXPECT_EQ(test.RunAlone(RequestOf(3, 10, 1)), ExpectedEvents(RequestOf(3, 10, 1), 512));
  EXPECT_EQ(test.Collect(*waiting[0]), ExpectedEvents(RequestOf(5, 5, 50), 512));
  ExpectCancelledPrefix(test.Collect(*waiting[1]), {});
  EXPECT_EQ(test.Collect(*waiting[2]), ExpectedEvents(RequestOf(5, 5, 52), 512));
}

TEST(Cancel, BeforeSubmitEndsTheSequenceBeforeItRuns) {
  EngineUnderTest test;
  test.Start();
  const auto generation = std::make_shared<Generation>(RequestOf(5, 5, 1), &test.notifier);
  generation->Cancel();
  ASSERT_TRUE(test.engine->Submit(generation).ok());
  ExpectCancelledPrefix(test.Collect(*generation), {});
  EXPECT_EQ(test.engine->stats().rounds, 0);
}

TEST(Cancel, AfterTheEndChangesNothing) {
  EngineUnderTest test;
  test.Start();
  const auto generation = test.Submit(RequestOf(5, 5, 1));
  EXPECT_EQ(test.Collect(*generation), ExpectedEvents(RequestOf(5, 5, 1), 512));
  generation->Cancel();
  test.engine.reset();
  generation->Cancel();
  TokenEvent event;
  EXPECT_FALSE(generation->TryPop(event));
}

// Long answers whose events nobody takes for a while.
EngineCase LongContext() {
  EngineCase c;
  c.limits.context_max = 4096;
  c.page_count = 128;
  return c;
}

void WaitUntilGenerated(const Engine& engine, int64_t tokens) {
  while (engine.stats().tokens_generated < tokens) std::this_thread::yield();
}

TEST(BackPressure, PausesASequenceWhoseEventsNobodyTakes) {
  EngineUnderTest test(LongContext());
  test.Start();
  const Request request = RequestOf(8, 2500, 3);
  const auto paused = test.Submit(request);
  WaitUntilGenerated(*test.engine, Generation::kEventsMax - 1);
  // It stands still; others pass.
  EXPECT_EQ(test.RunAlone(RequestOf(5, 5, 1)), ExpectedEvents(RequestOf(5, 5, 1), 4096));
  EXPECT_EQ(test.engine->stats().tokens_generated, Generation::kEventsMax - 1 + 5);
  EXPECT_EQ(test.engine->stats().running, 1);
  EXPECT_EQ(test.Collect(*paused), ExpectedEvents(request, 4096));
  test.ExpectEmpty();
}

TEST(BackPressure, PausesAScoreToo) {
  EngineUnderTest test(LongContext());
  test.Start();
  Request request = RequestOf(3000, 20, 4);
  request.kind = RequestKind::kScore;
  EXPECT_EQ(test.RunAlone(request), ExpectedEvents(request, 4096));
  test.ExpectEmpty();
}

TEST(BackPressure, AFullConsumerThatCancelsKeepsNoRoom) {
  EngineUnderTest test(LongContext());
  test.Start();
  const Request request = RequestOf(8, 2500, 3);
  const auto paused = test.Submit(request);
  WaitUntilGenerated(*test.engine, Generation::kEventsMax - 1);
  paused->Cancel();
  while (test.engine->stats().running > 0) std::this_thread::yield();
  test.ExpectEmpty();
  const std::vector<TokenEvent> events = test.Collect(*paused);
  EXPECT_EQ(events.size(), size_t{Generation::kEventsMax});
  ExpectCancelledPrefix(events, ExpectedEvents(request, 4096));
}

TEST(Shutdown, CancelsRunningAndWaitingSequencesAndRefusesNewOnes) {
  EngineCase c;
  c.options.sequences_max = 2;
  EngineUnderTest test(c);
  std::thread stopper;
  int round = 0;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    if (++round != 20) return;
    stopper = std::thread([&] { test.engine->Shutdown(); });
    Status status;
    do {  // until the other thread has come so far
      status = test.engine->Submit(std::make_shared<Generation>(RequestOf(1, 1, 9), nullptr));
    } while (status.ok() || status.code() == StatusCode::kResourceExhausted);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  };
  test.Start();
  std::vector<std::shared_ptr<Generation>> generations;
  for (int i = 0; i < 5; ++i) generations.push_back(test.Submit(RequestOf(20, 200, i)));
  for (int i = 0; i < 5; ++i) {
    ExpectCancelledPrefix(test.Collect(*generations[i]),
                          ExpectedEvents(RequestOf(20, 200, i), 512));
  }
  stopper.join();
  test.ExpectEmpty();
  test.engine->Shutdown();
}

}  // namespace
}  // namespace remontoir
