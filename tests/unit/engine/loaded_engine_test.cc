// Facts about opening an engine: what was planned is what is taken.
#include "engine/loaded_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/paths.h"

namespace remontoir {
namespace {

LoadEngineOptions Small() {
  LoadEngineOptions options;
  options.backend.threads = 2;
  options.engine.sequences_max = 2;
  options.engine.round_tokens_max = 64;
  return options;
}

ModelFile File() { return *ModelFile::Open(TestData("tiny/tiny-mixtral.q8_0.gguf")); }

TEST(OpenModel, TakesWhatThePlanSays) {
  for (const ComputeMode compute : {ComputeMode::kAuto, ComputeMode::kF32}) {
    LoadEngineOptions options = Small();
    options.backend.compute = compute;
    options.dynamic_memory_bytes = 1 << 20;
    const Result<LoadedModel> model = OpenModel(File(), options, nullptr);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Backend& backend = model->runner->backend();
    const MemoryPlan& plan = model->plan.memory;
    EXPECT_EQ(backend.kv_bytes(), plan.kv_bytes);
    EXPECT_EQ(backend.dynamic_pages().count, plan.dynamic_page_count);
    EXPECT_GE(plan.weights_bytes, backend.weights_bytes());
    EXPECT_LE(plan.weights_bytes, backend.weights_bytes() * 11 / 10);
    EXPECT_GE(plan.activation_bytes, backend.activation_bytes());
    EXPECT_LE(plan.activation_bytes, backend.activation_bytes() * 11 / 10);
    EXPECT_EQ(model->plan.kv_memory.arena.state, MemoryBacking::kPrefaulted);
    EXPECT_GE(model->plan.kv_memory.arena.bytes, plan.kv_bytes);
  }
}

TEST(OpenModel, ProgressEndsWithTheArena) {
  int64_t last_done = 0;
  int64_t last_total = 0;
  LoadEngineOptions options = Small();
  options.kv_memory_bytes = 1 << 20;
  const Result<LoadedModel> model = OpenModel(File(), options, [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last_done);
    EXPECT_LE(done, total);
    last_done = done;
    last_total = total;
  });
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(last_done, last_total);
  EXPECT_GT(last_total, model->runner->backend().kv_bytes());
}

TEST(OpenModel, RefusesWhatDoesNotFitBeforeItTakesAnything) {
  LoadEngineOptions options = Small();
  options.kv_memory_bytes = int64_t{1} << 50;
  bool loading = false;
  const Result<LoadedModel> model =
      OpenModel(File(), options, [&](int64_t, int64_t) { loading = true; });
  EXPECT_EQ(model.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(model.status().message(), testing::HasSubstr("lower kv_cache.memory"));
  EXPECT_FALSE(loading);
}

TEST(PlanEngine, WithoutAnArenaEverythingIsDynamic) {
  const ModelFile file = File();
  LoadEngineOptions options = Small();
  options.dynamic = true;
  const EnginePlan plan =
      PlanEngine(file, *ReadModelInfo(file), options, /*free_bytes=*/int64_t{1} << 40);
  EXPECT_TRUE(plan.fits.ok());
  EXPECT_EQ(plan.memory.kv_page_count, 0);
  EXPECT_EQ(plan.memory.dynamic_page_count, 8) << "a context of 512";
}

}  // namespace
}  // namespace remontoir
