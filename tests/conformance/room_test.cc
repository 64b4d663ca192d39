// Room for keys and values with real models: whatever it is made of, the bytes are the same; who
// got in gets all of it; and the request path asks nobody for memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread_counters.h"
#include "engine/loaded_engine.h"
#include "tests/support/engine_client.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

constexpr int32_t kContext = 512;

struct RoomCase {
  const char* name;
  const char* file;
  ComputeMode compute;
  DType kv_type;
};

constexpr RoomCase kCases[] = {
    {"SmolLm2", "SmolLM2-135M-Instruct.Q4_1.gguf", ComputeMode::kAuto, DType::kF16},
    {"TinyExperts", "tiny-mixtral.q8_0.gguf", ComputeMode::kAuto, DType::kF16},
    {"TinyExpertsFloat32", "tiny-mixtral.f16.gguf", ComputeMode::kF32, DType::kF32},
    {"TinyWindows", "tiny-gemma3.f32.gguf", ComputeMode::kAuto, DType::kBF16},
    {"TinyEightBitKeys", "tiny-llamaq.q4_k.gguf", ComputeMode::kAuto, DType::kQ8_0},
};

LoadedEngine Open(const RoomCase& c, int64_t arena_tokens, int32_t sequences_max,
                  int32_t queue_max = 64) {
  static const SystemClock clock;
  auto file = ModelFile::Open(TinyOrStoredModelPath(c.file));
  REM_CHECK(file.ok(), file.status().message());
  LoadEngineOptions options;
  options.backend = {.threads = 2, .compute = c.compute};
  options.engine.sequences_max = sequences_max;
  options.engine.queue_max = queue_max;
  options.context_max = kContext;
  options.kv_type = c.kv_type;
  auto info = ReadModelInfo(*file);
  REM_CHECK(info.ok(), info.status().message());
  options.kv_memory_bytes = arena_tokens * MakeKvLayout(info->shape, c.kv_type).token_bytes();
  auto engine = OpenEngine(std::move(*file), options, clock, nullptr);
  REM_CHECK(engine.ok(), engine.status().message());
  return std::move(*engine);
}

std::vector<TokenId> Text(int32_t vocabulary, int32_t length, uint64_t seed) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < length; ++i) {
    tokens.push_back(TokenId(
        static_cast<int32_t>(CounterRandom(seed, 5).Bits(i) % static_cast<uint64_t>(vocabulary))));
  }
  return tokens;
}

Request RequestOf(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.want_logprobs = true;
  request.top_logprobs = 3;
  request.ignore_eos = true;
  request.sampling.temperature = 0.8F;
  request.sampling.seed = 11;
  return request;
}

struct Told {
  Answer answer;
  int32_t cached = 0;
  RoomFacts room;
};

Told AskWhole(Engine& engine, const Request& request) {
  PendingAnswer pending(engine, request);
  Told told;
  told.answer = pending.Wait();
  told.cached = pending.generation().cached_tokens();
  told.room = pending.generation().room();
  return told;
}

Request Bypassing(Request request) {
  request.room.bypasses_cache = true;
  return request;
}

Request Dynamic(Request request) {
  request.room.dynamic = true;
  return request;
}

class RoomBytes : public ::testing::TestWithParam<RoomCase> {};

TEST_P(RoomBytes, AreTheSameColdWarmByTailPartlyEvictedAndDynamic) {
  LoadedEngine loaded = Open(GetParam(), 1024, 2);
  Engine& engine = *loaded.engine;
  const int32_t vocabulary = engine.vocabulary_size();
  const Request request = RequestOf(Text(vocabulary, 200, 1), 12);

  const Answer cold = AskWhole(engine, Bypassing(request)).answer;
  ASSERT_EQ(cold.tokens.size(), 12);
  const auto expect_same = [&](const Request& asked, const Answer& answer, int32_t cached) {
    const Told told = AskWhole(engine, asked);
    EXPECT_EQ(told.answer, answer);
    EXPECT_EQ(told.cached, cached);
  };
  expect_same(request, cold, 0);
  expect_same(request, cold, 199);
  expect_same(Dynamic(request), cold, 0);

  // A prompt that parts from it inside a page: the tail is copied.
  std::vector<TokenId> other = request.prompt;
  other.resize(150);
  const auto end = Text(vocabulary, 30, 2);
  other.insert(other.end(), end.begin(), end.end());
  const Request parted = RequestOf(other, 12);
  const Answer parted_cold = AskWhole(engine, Bypassing(parted)).answer;
  expect_same(parted, parted_cold, 150);

  // The second turn over a generated answer: what decode wrote serves as what prefill writes.
  std::vector<TokenId> turn = request.prompt;
  turn.insert(turn.end(), cold.tokens.begin(), cold.tokens.end());
  turn.insert(turn.end(), end.begin(), end.end());
  const Request second = RequestOf(turn, 12);
  const Answer second_cold = AskWhole(engine, Bypassing(second)).answer;
  expect_same(second, second_cold, 200 + 12 - 1);

  // Others take room until only the beginning is left.
  const int64_t evictions = engine.stats().kv.evictions;
  (void)AskWhole(engine, RequestOf(Text(vocabulary, 480, 3), 8));
  (void)AskWhole(engine, RequestOf(Text(vocabulary, 300, 4), 8));
  EXPECT_GT(engine.stats().kv.evictions, evictions);
  const Told evicted = AskWhole(engine, request);
  EXPECT_EQ(evicted.answer, cold);
  EXPECT_LT(evicted.cached, 199);
}

INSTANTIATE_TEST_SUITE_P(Models, RoomBytes, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Mixed lengths; ten of the longest fill the arena, and half of the clients find a place to wait.
TEST(Arena, OfSixtyFourClientsOnRoomForTenWhoGetsInGetsAllOfIt) {
  constexpr int32_t kClients = 64;
  constexpr int32_t kLongest = 256;
  LoadedEngine loaded = Open(kCases[1], 10 * kLongest, 16, kClients / 2);
  Engine& engine = *loaded.engine;
  const CounterRandom random(20261130, 4);
  std::vector<std::shared_ptr<Generation>> admitted;
  int32_t refused = 0;
  for (int32_t i = 0; i < kClients; ++i) {
    const auto prompt = static_cast<int32_t>(1 + random.Bits(2 * i) % 200);
    const auto answer = static_cast<int32_t>(1 + random.Bits(2 * i + 1) % (kLongest - prompt));
    auto client = std::make_shared<Generation>(
        RequestOf(Text(engine.vocabulary_size(), prompt, i % 7), answer), &AnswerNotifier());
    const Status status = engine.Submit(client);
    if (status.ok()) {
      admitted.push_back(std::move(client));
    } else {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
      ++refused;
    }
  }
  EXPECT_GE(admitted.size(), kClients / 2);
  for (const auto& client : admitted) {
    int32_t generated = 0;
    TokenEvent event;
    while (event.finish == FinishReason::kNone) {
      if (!client->TryPop(event)) {
        AnswerNotifier().Wait(-1);
      } else if (event.token != kNoToken) {
        ++generated;
      }
    }
    EXPECT_EQ(generated, client->request().max_tokens);
    EXPECT_EQ(event.detail, StopDetail::kMaxTokens);
    EXPECT_GT(client->room().bucket_tokens, 0);
  }
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.requests_finished, static_cast<int64_t>(admitted.size()));
  EXPECT_EQ(stats.requests_cancelled, 0);
  EXPECT_EQ(stats.kv_pages_unheld(), stats.kv.pages_total);
  EXPECT_EQ(static_cast<int32_t>(admitted.size()) + refused, kClients);
}

TEST(RequestPath, AsksNobodyForMemoryOverTenThousandStepsAndTwoHundredRequests) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  LoadedEngine loaded = Open(kCases[1], 4096, 8);
  Engine& engine = *loaded.engine;
  const int32_t vocabulary = engine.vocabulary_size();
  EngineStats before;
  for (uint64_t wave = 0; wave < 26; ++wave) {
    // The first one warms up: the program's own code, too, comes into memory when it first runs.
    if (wave == 1) before = engine.stats();
    std::vector<std::unique_ptr<PendingAnswer>> clients;
    for (uint64_t i = 0; i < 8; ++i) {
      Request request = RequestOf(Text(vocabulary, static_cast<int32_t>(1 + 37 * i), wave % 4), 60);
      request.room.bypasses_cache = i == 3;
      request.sampling.top_k = i % 2 == 0 ? 40 : 0;
      request.sampling.top_p = i % 3 == 0 ? 0.9F : 1.0F;
      request.sampling.repetition_penalty = i % 2 == 0 ? 1.1F : 1.0F;
      clients.push_back(std::make_unique<PendingAnswer>(engine, request));
    }
    for (const auto& client : clients) (void)client->Wait();
  }
  const EngineStats stats = engine.stats();
  EXPECT_GE(stats.tokens_generated - before.tokens_generated, 10'000);
  EXPECT_GT(stats.kv.hits, 100);
  EXPECT_EQ(stats.path_costs.heap_allocations, 0);
  EXPECT_EQ(stats.path_costs.page_faults, before.path_costs.page_faults);
  // The way it was done before shows in the same counter.
  (void)AskWhole(engine, Dynamic(RequestOf(Text(vocabulary, 100, 9), 2)));
  EXPECT_GT(engine.stats().path_costs.page_faults, stats.path_costs.page_faults);
}

}  // namespace
}  // namespace remontoir
