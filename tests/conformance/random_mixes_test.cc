// Promise 5 by seed: fifty random mixes of requests that come, share rounds, leave and wait; each
// request gets the bytes that it gets alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/loaded_engine.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

struct MixCase {
  const char* name;
  const char* file;
  ComputeMode compute;
  int mixes;
  int prompt_max;  // tokens
  int answer_max;
};

constexpr MixCase kCases[] = {
    {"SmolLm2", "SmolLM2-135M-Instruct.Q4_1.gguf", ComputeMode::kAuto, 10, 70, 10},
    {"TinyExperts", "tiny-mixtral.q8_0.gguf", ComputeMode::kAuto, 20, 180, 40},
    {"TinyExpertsFloat32", "tiny-mixtral.f16.gguf", ComputeMode::kF32, 5, 180, 40},
    {"TinyWindows", "tiny-gemma3.f32.gguf", ComputeMode::kAuto, 5, 180, 40},
    {"TinySinks", "tiny-gptoss.mxfp4.gguf", ComputeMode::kAuto, 5, 180, 40},
    {"TinySharedExpert", "tiny-qwen2moe.f32.gguf", ComputeMode::kAuto, 5, 180, 40},
    {"TinyDenseBesideExperts", "tiny-grok2-long.f32.gguf", ComputeMode::kAuto, 5, 180, 40},
    {"TinyLatent", "tiny-deepseek3.q8_0.gguf", ComputeMode::kAuto, 5, 180, 40},
    {"TinyQ4K", "tiny-llamaq.q4_k.gguf", ComputeMode::kAuto, 10, 180, 40},
};

LoadedEngine Open(const MixCase& c, int32_t threads, int32_t sequences_max,
                  int32_t round_tokens_max) {
  static const SystemClock clock;
  LoadEngineOptions options;
  options.backend = {.threads = threads, .compute = c.compute};
  options.engine.sequences_max = sequences_max;
  options.engine.round_tokens_max = round_tokens_max;
  options.context_max = 256;
  auto file = ModelFile::Open(TinyOrStoredModelPath(c.file));
  REM_CHECK(file.ok(), file.status().message());
  auto engine = OpenEngine(std::move(*file), options, clock, nullptr);
  REM_CHECK(engine.ok(), engine.status().message());
  return std::move(*engine);
}

// What a request's client sees of an event, as numbers.
using EventWords = std::vector<uint32_t>;

EventWords WordsOf(const TokenEvent& event) {
  EventWords words = {static_cast<uint32_t>(event.token),
                      uint32_t{event.is_prompt},
                      uint32_t{event.has_logprob},
                      event.has_logprob ? std::bit_cast<uint32_t>(event.logprob) : 0,
                      static_cast<uint32_t>(event.finish),
                      static_cast<uint32_t>(event.detail)};
  for (size_t i = 0; i < event.top_count; ++i) {
    words.push_back(static_cast<uint32_t>(event.top[i].token));
    words.push_back(std::bit_cast<uint32_t>(event.top[i].logprob));
  }
  return words;
}

// A request of a mix, and how it behaves.
struct Visitor {
  Request request;
  int arrives_after = 0;  // events of the mix, of whomever
  int leaves_after = -1;  // events of its own; -1: stays
};

// Mixes are pure functions of the seed.
class MixMaker {
 public:
  MixMaker(const MixCase& c, int32_t vocabulary, uint64_t seed)
      : case_(c), vocabulary_(vocabulary), random_(seed, 77) {}

  int Pick(int count) {
    return static_cast<int>(random_.Bits(n_++) % static_cast<uint64_t>(count));
  }

  std::vector<Visitor> Visitors() {
    std::vector<Visitor> visitors(static_cast<size_t>(3 + Pick(6)));
    for (Visitor& visitor : visitors) {
      visitor.request = MakeRequest();
      visitor.arrives_after = Pick(3) == 0 ? 0 : Pick(30);
      if (Pick(4) == 0) visitor.leaves_after = Pick(6);
    }
    return visitors;
  }

 private:
  Request MakeRequest() {
    Request request;
    request.kind = Pick(6) == 0 ? RequestKind::kScore : RequestKind::kGenerate;
    const int length = 1 + Pick(Pick(3) == 0 ? case_.prompt_max : case_.prompt_max / 4);
    // Every other one begins as others of the mix do.
    const uint64_t text = Pick(2) == 0 ? 1 : 2 + random_.Bits(n_++);
    for (int i = 0; i < length; ++i) {
      const auto place = static_cast<uint64_t>(i);
      request.prompt.push_back(TokenId(static_cast<int32_t>(CounterRandom(text, 5).Bits(place) %
                                                            static_cast<uint64_t>(vocabulary_))));
    }
    request.max_tokens = 1 + Pick(case_.answer_max);
    request.want_logprobs = Pick(4) != 0;
    request.top_logprobs = request.want_logprobs ? Pick(3) * 2 : 0;
    request.ignore_eos = Pick(2) == 0;
    for (int i = Pick(3); i > 0; --i) request.stop_tokens.push_back(Token());
    SamplingParams& sampling = request.sampling;
    sampling.seed = random_.Bits(n_++);
    sampling.temperature = static_cast<float>(Pick(4)) * 0.4F;
    sampling.top_k = Pick(3) * 20;
    sampling.top_p = Pick(2) == 0 ? 1.0F : 0.9F;
    sampling.min_p = Pick(4) == 0 ? 0.05F : 0.0F;
    sampling.presence_penalty = Pick(4) == 0 ? 0.7F : 0.0F;
    sampling.frequency_penalty = Pick(4) == 0 ? -0.3F : 0.0F;
    sampling.repetition_penalty = Pick(4) == 0 ? 1.2F : 1.0F;
    if (Pick(4) == 0) sampling.logit_bias.push_back({Token(), 5.0F});
    return request;
  }

  TokenId Token() { return TokenId(Pick(vocabulary_)); }

  const MixCase& case_;
  const int32_t vocabulary_;
  const CounterRandom random_;
  uint64_t n_ = 0;
};

// Runs a mix to its end in this thread: who arrives when, who leaves, everyone's events.
class Mix {
 public:
  Mix(Engine& engine, const std::vector<Visitor>& visitors)
      : engine_(engine), visitors_(visitors), events_(visitors.size()) {
    for (const Visitor& visitor : visitors) {
      generations_.push_back(std::make_shared<Generation>(visitor.request, &Wake()));
    }
    submitted_.resize(visitors.size(), false);
  }

  std::vector<std::vector<EventWords>> Run() {
    while (ended_ < visitors_.size()) {
      Arrive();
      if (!TakeEvents()) Wake().Wait(-1);
    }
    return events_;
  }

 private:
  // Outlives every engine.
  static Notifier& Wake() {
    static Notifier notifier;
    return notifier;
  }

  void Arrive() {
    for (size_t i = 0; i < visitors_.size(); ++i) {
      if (submitted_[i]) continue;
      // Nobody to wait for: the next one comes at once.
      if (visitors_[i].arrives_after > taken_ && inside_ > 0) continue;
      const Status status = engine_.Submit(generations_[i]);
      REM_CHECK(status.ok(), status.message());
      submitted_[i] = true;
      ++inside_;
      if (visitors_[i].leaves_after == 0) generations_[i]->Cancel();
    }
  }

  bool TakeEvents() {
    bool any = false;
    for (size_t i = 0; i < visitors_.size(); ++i) {
      TokenEvent event;
      while (submitted_[i] && generations_[i]->TryPop(event)) {
        any = true;
        ++taken_;
        events_[i].push_back(WordsOf(event));
        if (std::ssize(events_[i]) == visitors_[i].leaves_after) generations_[i]->Cancel();
        if (event.finish == FinishReason::kNone) continue;
        ++ended_;
        --inside_;
        break;
      }
    }
    return any;
  }

  Engine& engine_;
  const std::vector<Visitor>& visitors_;
  std::vector<std::shared_ptr<Generation>> generations_;
  std::vector<bool> submitted_;
  std::vector<std::vector<EventWords>> events_;
  size_t ended_ = 0;
  int inside_ = 0;
  int taken_ = 0;
};

bool WasCancelled(const std::vector<EventWords>& events) {
  return events.back()[4] == static_cast<uint32_t>(FinishReason::kCancelled);
}

void ExpectSoloEvents(const Visitor& visitor, const std::vector<EventWords>& events, Engine& solo) {
  const std::vector<Visitor> alone = {{.request = visitor.request}};
  const auto expected = Mix(solo, alone).Run()[0];
  ASSERT_FALSE(WasCancelled(expected));
  if (!WasCancelled(events)) {
    EXPECT_EQ(events, expected);
    return;
  }
  EXPECT_NE(visitor.leaves_after, -1);
  ASSERT_LE(events.size(), expected.size());
  EXPECT_TRUE(std::equal(events.begin(), events.end() - 1, expected.begin()));
}

class RandomMixes : public testing::TestWithParam<MixCase> {};

TEST_P(RandomMixes, GiveEachRequestItsSoloBytes) {
  LoadedEngine solo = Open(GetParam(), 1, 1, 512);
  constexpr int32_t kRoundTokens[] = {8, 16, 33, 64, 200, 512};
  int shared = 0;  // mixes whose requests shared rounds
  for (int m = 0; m < GetParam().mixes; ++m) {
    MixMaker maker(GetParam(), solo.engine->vocabulary_size(), 1000 + static_cast<uint64_t>(m));
    const int32_t threads = 1 + m % 3;
    const int32_t sequences_max = 2 + maker.Pick(7);
    const int32_t round_tokens_max = kRoundTokens[maker.Pick(6)];
    SCOPED_TRACE("mix " + std::to_string(m) + ": " + std::to_string(threads) + " threads, " +
                 std::to_string(sequences_max) + " sequences, rounds of " +
                 std::to_string(round_tokens_max));
    const auto visitors = maker.Visitors();
    LoadedEngine engine = Open(GetParam(), threads, sequences_max, round_tokens_max);
    const auto events = Mix(*engine.engine, visitors).Run();
    const EngineStats stats = engine.engine->stats();
    if (stats.rounds < stats.tokens_generated) ++shared;
    for (size_t i = 0; i < visitors.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ExpectSoloEvents(visitors[i], events[i], *solo.engine);
    }
  }
  EXPECT_GT(shared, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, RandomMixes, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace remontoir
