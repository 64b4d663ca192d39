// Promise 5 with sparse attention: an answer's bytes don't depend on load, chunking, threads or
// what the prefix cache had.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace remontoir
