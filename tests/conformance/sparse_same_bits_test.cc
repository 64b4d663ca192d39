// Promise 5 with sparse attention: an answer's bytes don't depend on load, chunking, threads or
// what the prefix cache had.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/thread_counters.h"
#include "engine/loaded_engine.h"
#include "tests/support/engine_client.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

struct Setting {
  int32_t threads;
  int32_t round_tokens_max;
  int32_t engage_at = kEngageAtCustomSparse;
};

LoadedEngine Open(const Setting& setting) {
  static const SystemClock clock;
  LoadEngineOptions options;
  options.backend = {.threads = setting.threads};
  options.engine.sequences_max = 4;
  options.engine.round_tokens_max = setting.round_tokens_max;
  options.context_max = 5632;
  options.sparse.engage_at = setting.engage_at;
  // The tiny model's weights are random and its heads diffuse: with less all blocks are read.
  options.sparse.epsilon = 0.8F;
  auto opened = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  REM_CHECK(opened.ok(), opened.status().message());
  auto engine = OpenEngine(std::move(*opened), options, clock, nullptr);
  REM_CHECK(engine.ok(), engine.status().message());
  return std::move(*engine);
}

// Prompts that end in the middle of a group, at its end, and before any row is sparse; the last one
// begins as the first one does.
std::vector<Request> Requests() {
  std::vector<Request> requests;
  for (const int length : {4421, 4608, 4200, 4700}) {
    Request request;
    for (int i = 0; i < length; ++i) {
      const int seed = length == 4700 ? 4421 : length;
      request.prompt.push_back(TokenId(3 + (i * 37 + i / 50 * 11 + seed) % 280));
    }
    request.max_tokens = length == 4200 ? 110 : 12;
    request.want_logprobs = true;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Answer> Alone(const std::vector<Request>& requests, const Setting& setting) {
  std::vector<Answer> answers;
  for (Request request : requests) {
    request.room.bypasses_cache = true;
    LoadedEngine engine = Open(setting);
    answers.push_back(Ask(*engine.engine, request));
  }
  return answers;
}

std::vector<Answer> Together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::unique_ptr<PendingAnswer>> pending;
  for (const Request& request : requests) {
    pending.push_back(std::make_unique<PendingAnswer>(engine, request));
  }
  std::vector<Answer> answers;
  for (auto& one : pending) answers.push_back(one->Wait());
  return answers;
}

TEST(SparseSameBits, LeaveBlocksToTheirMoments) {
  const std::vector<Request> requests = Requests();
  LoadedEngine engine = Open({2, 512});
  PendingAnswer answer(*engine.engine, requests[0]);
  answer.Wait();
  const SparseReadings readings = answer.generation().attention();
  EXPECT_GT(readings.chosen_blocks, 0);
  EXPECT_LT(readings.chosen_blocks, readings.far_blocks);
}

TEST(SparseSameBits, SequencesTogetherAndFromTheCacheGiveTheirSoloBytes) {
  const std::vector<Request> requests = Requests();
  const std::vector<Answer> alone = Alone(requests, {1, 512});
  for (const Setting& setting : {Setting{2, 512}, {1, 64}, {2, 200}}) {
    LoadedEngine engine = Open(setting);
    // The second time what may be found in the prefix cache is found there.
    for (const bool again : {false, true}) {
      const std::vector<Answer> together = Together(*engine.engine, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(together[i], alone[i])
            << "request " << i << ", " << setting.threads << " threads, "
            << setting.round_tokens_max << " tokens a round" << (again ? ", again" : "");
      }
    }
  }
}

TEST(SparseSameBits, ExactRequestsAmongSparseOnesGiveTheBytesOfTheExactMode) {
  std::vector<Request> requests = Requests();
  const std::vector<Answer> exact = Alone(requests, {1, 512, 0});
  requests[0].exact = true;
  requests[3].exact = true;
  LoadedEngine engine = Open({2, 512});
  for (int i = 0; i < 2; ++i) {
    const std::vector<Answer> together = Together(*engine.engine, requests);
    EXPECT_EQ(together[0], exact[0]);
    EXPECT_EQ(together[3], exact[3]);
  }
}

// Prefixes that shorter requests left without segments, and such as came with them.
TEST(SparseSameBits, AHitGivesTheSameBytesWhetherItsSegmentsAreSealedOrNot) {
  Request brief;
  for (int i = 0; i < 4250; ++i) brief.prompt.push_back(TokenId(3 + (i * 41 + i / 60 * 7) % 280));
  brief.max_tokens = 2;  // never sparse
  Request request = brief;
  for (int i = 0; i < 900; ++i) request.prompt.push_back(TokenId(3 + (i * 29 + i / 40) % 280));
  request.max_tokens = 20;
  request.want_logprobs = true;
  const Answer alone = Alone({request}, {1, 512})[0];
  LoadedEngine engine = Open({2, 512});
  (void)Ask(*engine.engine, brief);
  for (const bool sealed : {false, true}) {
    const int64_t matched = engine.engine->stats().kv.segments_matched;
    PendingAnswer answer(*engine.engine, request);
    EXPECT_EQ(answer.Wait(), alone) << sealed;
    EXPECT_GE(answer.generation().cached_tokens(), sealed ? 5144 : 4224);
    EXPECT_EQ(engine.engine->stats().kv.segments_matched - matched, sealed ? 4 : 0);
  }
}

// The same groups, so the same bytes as a prefill's.
TEST(SparseSameBits, AScoredPromptIsComputedAsAPromptIs) {
  Request request;
  for (int i = 0; i < 4700; ++i)
    request.prompt.push_back(TokenId(3 + (i * 37 + i / 50 * 11) % 280));
  request.max_tokens = 6;
  request.want_logprobs = true;
  const Answer generated = Alone({request}, {1, 512})[0];
  request.kind = RequestKind::kScore;
  Answer want;
  for (const Setting& setting : {Setting{1, 512}, {2, 64}, {2, 200}}) {
    LoadedEngine engine = Open(setting);
    const Answer scored = Ask(*engine.engine, request);
    EXPECT_EQ(scored.prompt_logprobs.size(), request.prompt.size() - 1);
    EXPECT_EQ(scored.tokens, generated.tokens);
    EXPECT_EQ(scored.logprobs, generated.logprobs);
    if (want.tokens.empty()) want = scored;
    EXPECT_EQ(scored, want) << setting.round_tokens_max;
  }
  // And not as the exact mode computes it.
  LoadedEngine exact = Open({2, 512, 0});
  EXPECT_NE(Ask(*exact.engine, request).prompt_logprobs, want.prompt_logprobs);
}

TEST(SparseRequestPath, AsksNobodyForMemory) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  LoadedEngine loaded = Open({2, 512});
  Engine& engine = *loaded.engine;
  EngineStats before;
  for (int wave = 0; wave < 5; ++wave) {
    // The first two warm up: the program's own code, too, comes into memory when it first runs.
    if (wave == 2) before = engine.stats();
    std::vector<Request> requests = Requests();
    for (size_t i = 0; i < requests.size(); ++i) {
      // Of one length: whichever slot it gets, the slot's memory was used before.
      while (requests[i].prompt.size() < 4700) requests[i].prompt.push_back(TokenId(7));
      requests[i].room.bypasses_cache = i == 1;
      requests[i].exact = i == 2 && wave % 2 == 0;
      requests[i].max_tokens = 40;
      // Some find their beginning, with its segments or without.
      const auto changed = static_cast<size_t>(4100 - 1000 * (wave % 3));
      requests[i].prompt[changed] = TokenId(3 + wave);
    }
    (void)Together(engine, requests);
  }
  const EngineStats stats = engine.stats();
  EXPECT_GT(stats.sparse_rows - before.sparse_rows, 500);
  EXPECT_GT(stats.kv.segments_matched - before.kv.segments_matched, 0);
  EXPECT_EQ(stats.path_costs.heap_allocations, 0);
  EXPECT_EQ(stats.path_costs.page_faults, before.path_costs.page_faults);
}

}  // namespace
}  // namespace remontoir
