// Facts about opening an engine: what was planned is what is taken.
#include "engine/loaded_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kv/kv_buckets.h"
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

TEST(OpenEngine, TakesAsManyClassesAsAConfigurationMayList) {
  LoadEngineOptions options = Small();
  for (int64_t tokens = 1; tokens <= kBucketsMax; ++tokens)
    options.buckets_wanted.push_back(tokens);
  const SystemClock clock;
  const Result<LoadedEngine> loaded = OpenEngine(File(), options, clock, nullptr);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->model.plan.bucket_tokens.size(), size_t{kBucketsMax} + 1);
}

TEST(PlanEngine, WithoutAnArenaEverythingIsDynamic) {
  const ModelFile file = File();
  LoadEngineOptions options = Small();
  options.engine.dynamic = true;
  options.buckets_wanted = {4096};
  const Result<EnginePlan> plan =
      PlanEngine(file, *ReadModelInfo(file), options, /*free_bytes=*/int64_t{1} << 40);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_TRUE(plan->fits.ok());
  EXPECT_EQ(plan->memory.kv_page_count, 0);
  EXPECT_EQ(plan->memory.dynamic_page_count, 8) << "a context of 512";
  EXPECT_TRUE(plan->dynamic);
  EXPECT_EQ(RoomTokens(*plan), 512);
  EXPECT_THAT(plan->bucket_tokens, testing::IsEmpty());
  EXPECT_THAT(plan->notes, testing::IsEmpty());
}

// The model was trained for 512 positions.
TEST(PlanEngine, DropsClassesThatNoSequenceCouldUse) {
  const ModelFile file = File();
  const struct {
    std::vector<int64_t> wanted;
    int32_t context;  // 0: as trained
    std::vector<int32_t> tokens;
    const char* note;  // empty: none
  } kCases[] = {
      {{}, 0, {512}, ""},
      {{128, 512}, 0, {128, 512}, ""},
      {{128, 600, 1024}, 0, {128, 512}, "600, 1024 are above the model's context of 512"},
      {{1024}, 0, {512}, "1024 is above the model's context of 512"},
      {{128, 512}, 200, {128, 200}, "512 is above the model's context of 200"},
  };
  for (const auto& test : kCases) {
    LoadEngineOptions options = Small();
    options.buckets_wanted = test.wanted;
    options.engine.bucket_capacity = 5;
    options.context_max = test.context;
    const Result<EnginePlan> plan =
        PlanEngine(file, *ReadModelInfo(file), options, /*free_bytes=*/int64_t{1} << 40);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->bucket_tokens, test.tokens);
    EXPECT_EQ(plan->bucket_capacity, 5);
    std::vector<std::string> notes;
    if (*test.note != '\0') {
      notes.push_back("kv_cache.prealloc_buckets: " + std::string(test.note) + " and dropped");
    }
    EXPECT_EQ(plan->notes, notes);
  }
}

TEST(PlanEngine, NamesTheKeyOfAListThatIsNoPlan) {
  const ModelFile file = File();
  LoadEngineOptions options = Small();
  options.buckets_wanted.resize(kBucketsMax + 1);
  const Status status =
      PlanEngine(file, *ReadModelInfo(file), options, /*free_bytes=*/int64_t{1} << 40).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("kv_cache.prealloc_buckets"));
}

}  // namespace
}  // namespace remontoir
