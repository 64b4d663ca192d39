// A thousand requests by seed from two threads, some of which leave: everyone gets their own
// tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "engine_fixture.h"

namespace remontoir {
namespace {

constexpr int kRequests = 1000;
constexpr int32_t kContext = 512;

class RandomRequests {
 public:
  explicit RandomRequests(uint64_t seed) : random_(seed, 0) {}

  Request Next() {
    Request request;
    request.kind = Pick(5) == 0 ? RequestKind::kScore : RequestKind::kGenerate;
    request.prompt = PromptOf(1 + Pick(Pick(4) == 0 ? 300 : 40), random_.Bits(n_++));
    if (Pick(2) == 0) {  // begins as others do
      const std::vector<TokenId> common = PromptOf(1 + Pick(150), 77 + Pick(2));
      request.prompt.insert(request.prompt.begin(), common.begin(), common.end());
    }
    request.room.dynamic = Pick(6) == 0;
    request.room.bypasses_cache = Pick(6) == 0;
    request.room.prefix_key = {static_cast<uint64_t>(Pick(2)), 0};
    if (Pick(4) == 0) request.room.context_hint = 1 + Pick(300);
    request.max_tokens = Pick(20) == 0 ? 0 : 1 + Pick(40);
    request.want_logprobs = Pick(2) == 0;
    request.top_logprobs = Pick(3);
    request.ignore_eos = Pick(4) == 0;
    for (int32_t i = Pick(3); i > 0; --i) request.stop_tokens.push_back(TokenId(Pick(61)));
    request.sampling.seed = random_.Bits(n_++);
    request.sampling.temperature = static_cast<float>(Pick(4)) * 0.5f;
    request.sampling.top_k = Pick(3) * 8;
    request.sampling.top_p = Pick(2) == 0 ? 1 : 0.8f;
    request.sampling.frequency_penalty = Pick(3) == 0 ? 0.5f : 0;
    return request;
  }

  int32_t Pick(int32_t count) { return static_cast<int32_t>(random_.Bits(n_++) % count); }

 private:
  const CounterRandom random_;
  uint64_t n_ = 0;
};

TEST(RandomRequests, GetTheirOwnTokensWhoeverElseComesAndGoes) {
  EngineCase c;
  c.page_count = 24;  // scarce: admission waits for room
  c.dynamic_page_count = 10;
  c.options.bucket_tokens = {64, 128, 256, 512};
  c.options.bucket_capacity = 3;
  EngineUnderTest test(c);
  test.Start();
  RandomRequests random(20261129);
  std::vector<std::shared_ptr<Generation>> generations;
  std::vector<int32_t> cancel_after(kRequests, -1);  // events; -1: stays
  for (int i = 0; i < kRequests; ++i) {
    generations.push_back(std::make_shared<Generation>(random.Next(), &test.notifier));
    if (random.Pick(4) == 0) cancel_after[i] = random.Pick(20);
  }
  std::thread submitter([&] {
    for (const auto& generation : generations) {
      Status status;
      do {
        status = test.engine->Submit(generation);
      } while (status.code() == StatusCode::kResourceExhausted);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  });

  std::vector<std::vector<TokenEvent>> events(kRequests);
  const auto ended = [&](int i) {
    return !events[i].empty() && events[i].back().finish != FinishReason::kNone;
  };
  for (int left = kRequests; left > 0;) {
    bool popped = false;
    for (int i = 0; i < kRequests; ++i) {
      const auto taken = static_cast<int32_t>(events[i].size());
      if (cancel_after[i] >= 0 && taken >= cancel_after[i]) generations[i]->Cancel();
      TokenEvent event;
      while (!ended(i) && generations[i]->TryPop(event)) {
        events[i].push_back(event);
        popped = true;
        if (ended(i)) --left;
      }
    }
    if (!popped && left > 0) {
      ASSERT_TRUE(test.notifier.Wait(20'000));
    }
  }
  submitter.join();
  test.ExpectEmpty();

  int cancelled = 0;
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    const auto expected = ExpectedEvents(generations[i]->request(), kContext);
    // A hint may have kept its room too small to grow.
    if (events[i].back().detail == StopDetail::kKvRoom) {
      EXPECT_GT(generations[i]->request().room.context_hint, 0);
      ASSERT_LE(events[i].size(), expected.size());
      EXPECT_TRUE(std::equal(events[i].begin(), events[i].end() - 1, expected.begin()));
      continue;
    }
    if (events[i].back().finish != FinishReason::kCancelled) {
      EXPECT_EQ(events[i], expected);
      continue;
    }
    ++cancelled;
    EXPECT_NE(cancel_after[i], -1);
    ASSERT_LE(events[i].size(), expected.size());
    EXPECT_TRUE(std::equal(events[i].begin(), events[i].end() - 1, expected.begin()));
  }
  EXPECT_EQ(test.engine->stats().requests_cancelled, cancelled);
  EXPECT_EQ(test.engine->stats().requests_finished, kRequests - cancelled);
}

}  // namespace
}  // namespace remontoir
