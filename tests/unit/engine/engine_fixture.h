// An engine over the fake model, and what its answers must be, computed without any engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "fake_model_runner.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"

namespace remontoir {

inline bool operator==(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token == b.token && a.logprob == b.logprob;
}
inline bool operator==(const TokenEvent& a, const TokenEvent& b) {
  return a.token == b.token && a.is_prompt == b.is_prompt && a.has_logprob == b.has_logprob &&
         a.logprob == b.logprob && a.top_count == b.top_count && a.top == b.top &&
         a.finish == b.finish && a.detail == b.detail;
}
inline void PrintTo(const TokenEvent& event, std::ostream* out) {
  *out << (event.is_prompt ? "prompt " : "") << Index(event.token) << " logprob " << event.logprob
       << " finish " << static_cast<int>(event.finish) << '/' << static_cast<int>(event.detail);
}

inline std::vector<TokenId> Tokens(const std::vector<int32_t>& ids) {
  std::vector<TokenId> tokens;
  for (const int32_t id : ids) tokens.push_back(TokenId(id));
  return tokens;
}

// `count` tokens that depend on the seed.
inline std::vector<TokenId> PromptOf(int32_t count, uint64_t seed) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) {
    tokens.push_back(
        TokenId(static_cast<int32_t>(CounterRandom(seed, 3).Bits(i) % kFakeVocabulary)));
  }
  return tokens;
}

// A prompt of so many tokens, and draws, that depend on the seed.
inline Request RequestOf(int32_t prompt, int32_t max_tokens, uint64_t seed = 1) {
  Request request;
  request.prompt = PromptOf(prompt, seed);
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  return request;
}

inline void FillLogprob(std::span<const float> logits, int32_t top, TokenEvent& event) {
  const double log_sum = LogSumExp(logits);
  event.has_logprob = true;
  event.logprob = LogprobAt(logits, log_sum, event.token);
  std::vector<TokenId> best(top);
  event.top_count = static_cast<uint8_t>(TopTokens(logits, best));
  for (int i = 0; i < event.top_count; ++i) {
    event.top[i] = {best[i], LogprobAt(logits, log_sum, best[i])};
  }
}

// The events that a request must get when it has all the room it needs.
inline std::vector<TokenEvent> ExpectedEvents(const Request& request, int32_t context_max) {
  std::vector<TokenEvent> events;
  std::vector<float> logits(kFakeVocabulary);
  Sampler sampler(kFakeVocabulary);
  TokenCounts counts(kFakeVocabulary, context_max);
  const bool scores = request.kind == RequestKind::kScore;
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  uint64_t chain = 0;
  for (int32_t i = 0; i < prompt; ++i) {
    TokenEvent event = {.token = request.prompt[i], .is_prompt = true};
    if (i > 0) FillLogprob(logits, request.top_logprobs, event);
    if (scores) events.push_back(event);
    counts.AddPrompt(event.token);
    chain = FakeChain(chain, Index(event.token), i);
    FakeLogits(chain, logits);
  }
  if (request.max_tokens == 0) {
    if (!scores) events.push_back({});
    events.back().finish = FinishReason::kLength;
    events.back().detail = StopDetail::kMaxTokens;
    return events;
  }
  for (int32_t known = prompt;;) {
    TokenEvent event;
    event.token = sampler.Sample(logits, request.sampling, &counts, known);
    if (scores || request.want_logprobs) FillLogprob(logits, request.top_logprobs, event);
    counts.AddOutput(event.token);
    chain = FakeChain(chain, Index(event.token), known);
    FakeLogits(chain, logits);
    ++known;
    bool stops = false;
    for (const TokenId stop : request.stop_tokens) stops |= stop == event.token;
    if (stops && !request.ignore_eos) {
      event.finish = FinishReason::kStop;
    } else if (known - prompt == request.max_tokens) {
      event.finish = FinishReason::kLength;
      event.detail = StopDetail::kMaxTokens;
    } else if (known == context_max) {
      event.finish = FinishReason::kLength;
      event.detail = StopDetail::kContext;
    }
    events.push_back(event);
    if (event.finish != FinishReason::kNone) return events;
  }
}

struct EngineCase {
  RoundLimits limits = {
      .rows_max = 64, .sequences_max = 8, .logit_rows_max = 32, .context_max = 512};
  EngineOptions options = {
      .sequences_max = 8, .queue_max = 32, .round_tokens_max = 64, .reserve_tokens_default = 128};
  int32_t page_count = 64;
  int32_t dynamic_page_count = 0;
};

// A running engine. Its clock stands still, so that the estimate lets every round be full.
class EngineUnderTest {
 public:
  explicit EngineUnderTest(const EngineCase& c = {})
      : runner(c.limits, c.page_count, c.dynamic_page_count), case_(c) {}

  // After on_run is set.
  void Start() {
    auto created = Engine::Create(runner, clock, case_.options, case_.page_count);
    ASSERT_TRUE(created.ok()) << created.status().message();
    engine = std::move(created).value();
  }

  std::shared_ptr<Generation> Submit(Request request) {
    auto generation = std::make_shared<Generation>(std::move(request), &notifier);
    const Status status = engine->Submit(generation);
    EXPECT_TRUE(status.ok()) << status.message();
    return generation;
  }

  // Pops until the last event.
  std::vector<TokenEvent> Collect(Generation& generation) {
    std::vector<TokenEvent> events;
    TokenEvent event;
    while (events.empty() || events.back().finish == FinishReason::kNone) {
      if (generation.TryPop(event)) {
        events.push_back(event);
      } else if (!notifier.Wait(20'000)) {
        ADD_FAILURE() << "no event for 20 seconds";
        break;
      }
    }
    return events;
  }

  std::vector<TokenEvent> RunAlone(Request request) { return Collect(*Submit(std::move(request))); }

  void ExpectEmpty() {
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.kv_pages_unheld(), stats.kv.pages_total);
  }

  ManualClock clock;
  Notifier notifier;
  FakeModelRunner runner;
  std::unique_ptr<Engine> engine;

 private:
  const EngineCase case_;
};

}  // namespace remontoir
