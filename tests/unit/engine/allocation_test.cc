// The loop's thread allocates nothing once it runs, whatever is asked of it.
#include <gtest/gtest.h>

#include "base/thread_counters.h"
#include "engine_fixture.h"

namespace remontoir {
namespace {

TEST(Allocation, NoneOnTheLoopsThreadAfterItsFirstRound) {
  if (!HeapAllocationsOfThread().has_value()) GTEST_SKIP() << "not counted under a sanitizer";
  EngineUnderTest test;
  // Of the loop's thread, in its first round and in its last.
  std::optional<int64_t> first;
  int64_t last = 0;
  test.runner.on_run = [&](std::span<const BatchSequence>) {
    last = *HeapAllocationsOfThread();
    if (!first.has_value()) first = last;
  };
  test.Start();
  int64_t finished = 0;
  for (uint64_t wave = 0; wave < 20; ++wave) {
    std::vector<std::shared_ptr<Generation>> generations;
    for (uint64_t i = 0; i < 16; ++i) {
      Request request;
      request.kind = i % 5 == 0 ? RequestKind::kScore : RequestKind::kGenerate;
      request.prompt = PromptOf(static_cast<int32_t>(1 + 13 * i), wave);
      request.max_tokens = i % 7 == 0 ? -1 : static_cast<int32_t>(3 * i);
      request.stop_tokens = Tokens({3});
      request.want_logprobs = i % 2 == 0;
      request.top_logprobs = static_cast<int32_t>(i);
      request.sampling.seed = i;
      request.sampling.top_k = i % 3 == 0 ? 10 : 0;
      request.sampling.top_p = i % 4 == 0 ? 0.9f : 1;
      request.sampling.repetition_penalty = i % 2 == 0 ? 1.2f : 1;
      request.sampling.logit_bias = {{TokenId(7), 2}};
      generations.push_back(test.Submit(std::move(request)));
    }
    for (size_t i = 0; i < generations.size(); i += 3) generations[i]->Cancel();
    for (const auto& generation : generations) {
      (void)test.Collect(*generation);
      ++finished;
    }
  }
  EXPECT_EQ(finished, 320);
  // The end of the last wave is seen by one round more.
  Request request;
  request.prompt = PromptOf(1, 0);
  request.max_tokens = 1;
  (void)test.RunAlone(std::move(request));
  test.engine->Shutdown();
  EXPECT_EQ(last, first);
}

}  // namespace
}  // namespace remontoir
