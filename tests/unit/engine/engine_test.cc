// What a request gets: the same events alone, among others and in any chunking.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace remontoir {
namespace {

// Requests of all kinds, each a case by itself.
std::vector<Request> AllKinds() {
  std::vector<Request> requests;
  const auto add = [&](Request request, auto change) {
    change(request);
    requests.push_back(std::move(request));
  };
  add(RequestOf(1, 1, 1), [](Request&) {});
  add(RequestOf(1, 40, 2), [](Request& r) { r.sampling.temperature = 0; });
  add(RequestOf(63, 3, 3), [](Request& r) { r.want_logprobs = true; });
  add(RequestOf(64, 2, 4), [](Request& r) {
    r.want_logprobs = true;
    r.top_logprobs = 5;
  });
  add(RequestOf(65, 90, 5), [](Request& r) { r.sampling.top_k = 5; });
  add(RequestOf(200, 20, 6), [](Request& r) {
    r.sampling.repetition_penalty = 1.5f;
    r.sampling.frequency_penalty = 0.5f;
    r.sampling.presence_penalty = 0.5f;
  });
  add(RequestOf(30, 100, 7), [](Request& r) { r.stop_tokens = Tokens({5, 9}); });
  add(RequestOf(30, 100, 8), [](Request& r) {
    r.stop_tokens = Tokens({5, 9});
    r.ignore_eos = true;
  });
  add(RequestOf(9, 0, 9), [](Request&) {});
  add(RequestOf(1, 0, 10), [](Request& r) { r.kind = RequestKind::kScore; });
  add(RequestOf(2, 0, 11), [](Request& r) { r.kind = RequestKind::kScore; });
  add(RequestOf(150, 0, 12), [](Request& r) {
    r.kind = RequestKind::kScore;
    r.top_logprobs = 20;
  });
  add(RequestOf(100, 30, 13), [](Request& r) {
    r.kind = RequestKind::kScore;
    r.top_logprobs = 2;
  });
  add(RequestOf(500, -1, 14), [](Request&) {});  // context ends it
  add(RequestOf(20, -1, 15), [](Request& r) { r.stop_tokens = Tokens({5}); });
  add(RequestOf(40, 60, 16), [](Request& r) {
    r.sampling.logit_bias = {{TokenId(4), 3}, {TokenId(5), -100}};
    r.sampling.min_p = 0.1f;
    r.sampling.top_p = 0.9f;
    r.sampling.temperature = 1.5f;
  });
  return requests;
}

TEST(Engine, GivesARequestAloneWhatTheModelSays) {
  EngineUnderTest test;
  test.Start();
  for (const Request& request : AllKinds()) {
    SCOPED_TRACE(request.sampling.seed);
    EXPECT_EQ(test.RunAlone(request), ExpectedEvents(request, 512));
    test.ExpectEmpty();
  }
}

TEST(Engine, GivesTheSameInAFullBatchAndInAnyChunking) {
  struct Bounds {
    int32_t rows;
    int32_t logit_rows;
    int32_t sequences;
  };
  for (const Bounds& bounds :
       {Bounds{15, 15, 8}, Bounds{64, 16, 8}, Bounds{400, 100, 8}, Bounds{16, 9, 2}}) {
    SCOPED_TRACE(bounds.rows);
    EngineCase c;
    c.limits.rows_max = bounds.rows;
    c.limits.logit_rows_max = bounds.logit_rows;
    c.options.round_tokens_max = bounds.rows;
    c.options.sequences_max = bounds.sequences;
    EngineUnderTest test(c);
    test.Start();
    const std::vector<Request> requests = AllKinds();
    std::vector<std::shared_ptr<Generation>> generations;
    for (const Request& request : requests) generations.push_back(test.Submit(request));
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(requests[i].sampling.seed);
      EXPECT_EQ(test.Collect(*generations[i]), ExpectedEvents(requests[i], 512));
    }
    test.ExpectEmpty();
    EXPECT_EQ(test.engine->stats().requests_finished, static_cast<int64_t>(requests.size()));
  }
}

TEST(Engine, ScoresAnAnswerWithTheBitsThatItsDecodeGave) {
  EngineUnderTest test;
  test.Start();
  Request request = RequestOf(70, 80, 21);
  request.want_logprobs = true;
  request.top_logprobs = 3;
  const std::vector<TokenEvent> decoded = test.RunAlone(request);

  Request score;
  score.kind = RequestKind::kScore;
  score.prompt = request.prompt;
  score.max_tokens = 0;
  score.top_logprobs = 3;
  for (const TokenEvent& event : decoded) score.prompt.push_back(event.token);
  const std::vector<TokenEvent> scored = test.RunAlone(score);
  ASSERT_EQ(scored.size(), 150u);
  EXPECT_FALSE(scored[0].has_logprob);
  for (size_t i = 0; i < decoded.size(); ++i) {
    EXPECT_EQ(scored[70 + i].logprob, decoded[i].logprob);
    EXPECT_EQ(scored[70 + i].top, decoded[i].top);
    EXPECT_TRUE(scored[70 + i].is_prompt);
  }
}

TEST(Engine, CountsWhatItDid) {
  EngineUnderTest test;
  test.Start();
  (void)test.RunAlone(RequestOf(100, 10, 1));
  const EngineStats stats = test.engine->stats();
  EXPECT_EQ(stats.tokens_prefilled, 100);
  EXPECT_EQ(stats.tokens_generated, 10);
  EXPECT_EQ(stats.requests_finished, 1);
  EXPECT_EQ(stats.requests_cancelled, 0);
  EXPECT_EQ(stats.rounds, 2 + 9);  // 64 and 36 tokens of the prompt, then the rest one by one
  EXPECT_EQ(stats.kv.pages_total, 64);
}

}  // namespace
}  // namespace remontoir
