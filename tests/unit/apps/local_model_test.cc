// Facts about the name under which a model file is served.
#include "apps/local_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

namespace remontoir {
namespace {

TEST(ModelNameOf, LeavesOutFolderEndingAndPartNumber) {
  const struct {
    const char* path;
    const char* name;
  } kCases[] = {
      {"model.gguf", "model"},
      {"/models/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1"},
      {"big-00001-of-00003.gguf", "big"},
      {"big-0001-of-00003.gguf", "big-0001-of-00003"},
      {"big-00001-or-00003.gguf", "big-00001-or-00003"},
      {"-00001-of-00003.gguf", "-00001-of-00003"},
      {"no_ending", "no_ending"},
      {".gguf", ".gguf"},
  };
  for (const auto& test : kCases) EXPECT_EQ(ModelNameOf(test.path), test.name);
}

TEST(RepackCacheOf, IsBelowTheHomeUnlessAnotherFolderIsNamed) {
  const struct {
    const char* value;
    const char* home;
    const char* folder;
  } kCases[] = {
      {"auto", "/models", "/models/repacked"},
      {"off", "/models", ""},
      {"/fast/disk", "/models", "/fast/disk"},
      {"cache", "/models", "cache"},
  };
  for (const auto& test : kCases) {
    setenv("REMONTOIR_HOME", test.home, 1);
    ModelConfig config;
    config.repack_cache = test.value;
    config.repack_cache_bytes_max = 5;
    const RepackCacheOptions options = RepackCacheOf(config);
    unsetenv("REMONTOIR_HOME");
    EXPECT_EQ(options.folder, test.folder) << test.value;
    EXPECT_EQ(options.bytes_max, 5);
  }
}

TEST(EngineOptionsOf, TakesEveryKeyOfTheRoom) {
  EngineChoice choice;
  KvCacheConfig& kv_cache = choice.config.kv_cache;
  LoadEngineOptions options = EngineOptionsOf(choice);
  EXPECT_FALSE(options.engine.dynamic);
  EXPECT_EQ(options.engine.bucket_capacity, 32);
  EXPECT_TRUE(options.buckets_wanted.empty());
  EXPECT_EQ(options.dynamic_memory_bytes, 0);
  EXPECT_TRUE(options.lock_memory);

  kv_cache.strategy = KvStrategy::kDynamic;
  kv_cache.prealloc_buckets = {4096, 8192};
  kv_cache.bucket_capacity = 5;
  kv_cache.dynamic_memory_max = 1 << 20;
  kv_cache.lock = false;
  options = EngineOptionsOf(choice);
  EXPECT_TRUE(options.engine.dynamic);
  EXPECT_EQ(options.engine.bucket_capacity, 5);
  EXPECT_EQ(options.buckets_wanted, (std::vector<int64_t>{4096, 8192}));
  EXPECT_EQ(options.dynamic_memory_bytes, 1 << 20);
  EXPECT_FALSE(options.lock_memory);
}

TEST(EngineOptionsOf, TakesEveryKeyOfTheScheduler) {
  EngineChoice choice;
  SchedulerOptions scheduler = EngineOptionsOf(choice).engine.scheduler;
  EXPECT_EQ(scheduler.policy, SchedulingPolicy::kAdaptive);
  EXPECT_EQ(scheduler.window_us_min, 50'000);
  EXPECT_EQ(scheduler.window_us_max, 120'000);

  const std::pair<BatchingPolicy, SchedulingPolicy> kPolicies[] = {
      {BatchingPolicy::kAdaptive, SchedulingPolicy::kAdaptive},
      {BatchingPolicy::kFixed, SchedulingPolicy::kFixed},
      {BatchingPolicy::kImmediate, SchedulingPolicy::kImmediate},
      {BatchingPolicy::kLegacy, SchedulingPolicy::kLegacy}};
  DynamicBatchingConfig& batching = choice.config.dynamic_batching;
  for (const auto& [written, meant] : kPolicies) {
    batching.policy = written;
    batching.enabled = true;
    EXPECT_EQ(EngineOptionsOf(choice).engine.scheduler.policy, meant);
    batching.enabled = false;
    EXPECT_EQ(EngineOptionsOf(choice).engine.scheduler.policy, SchedulingPolicy::kImmediate);
  }
  batching.min_window_ms = 20.5;
  batching.max_window_ms = 80;
  scheduler = EngineOptionsOf(choice).engine.scheduler;
  EXPECT_EQ(scheduler.window_us_min, 20'500);
  EXPECT_EQ(scheduler.window_us_max, 80'000);
}

TEST(DescribeRoom, SaysHowMuchAndHowItIsHeld) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EnginePlan plan;
  plan.kv_memory.arena = {.state = MemoryBacking::kLocked,
                          .bytes = 1228 * kMiB,
                          .prefaulted_bytes = 1228 * kMiB,
                          .locked_bytes = 1228 * kMiB,
                          .huge_bytes = 1200 * kMiB};
  EXPECT_EQ(DescribeRoom(plan), "KV room: 1.20 GiB, locked, 600 huge pages");
  plan.kv_memory.arena.state = MemoryBacking::kPrefaulted;
  EXPECT_EQ(DescribeRoom(plan), "KV room: 1.20 GiB, prefaulted, 600 huge pages");
  plan.dynamic = true;
  plan.memory.dynamic_bytes = 512 * kMiB;
  EXPECT_EQ(DescribeRoom(plan), "KV room: dynamic, at most 0.50 GiB from the system");
}

}  // namespace
}  // namespace remontoir
