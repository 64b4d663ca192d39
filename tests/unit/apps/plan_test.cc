// Facts about what a plan says before anything is loaded.
#include "apps/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "engine/memory_plan.h"
#include "tests/support/paths.h"
#include "tests/support/printed.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/formats/gguf_builder.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Printed PlanFor(const std::string& file, const EngineConfig& engine = {},
                const KvCacheConfig& kv_cache = {}) {
  PlanOptions options;
  options.engine.config.model.file = file;
  options.engine.config.engine = engine;
  options.engine.config.kv_cache = kv_cache;
  return PrintedBy([&](std::FILE* out) { return Plan(options, out); });
}

// 512 positions are 8 pages of 64; a token takes 2 layers x 2 heads x (16 + 16) values of 2 bytes.
TEST(Plan, CountsThePagesOfEverySequence) {
  EngineConfig engine;
  engine.sequences_max = 3;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), engine);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("1536 tokens of 256 bytes in F16"));
  EXPECT_THAT(printed.text, HasSubstr("2 of 8 experts"));
}

// In q8_0 a head's 16 values, less than a block of 32, take 16 bytes and a scale of 2.
TEST(Plan, CountsTheScalesOfQuantisedKeys) {
  KvCacheConfig kv_cache;
  kv_cache.type = KvType::kQ8_0;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), {}, kv_cache);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("tokens of 144 bytes in Q8_0"));
}

// The header of a mixture of eight experts with 314 billion weights in Q4_0, and no data.
std::string HugeHeader() {
  constexpr int kLayers = 64;
  constexpr int64_t kWidth = 6144;
  constexpr int64_t kFeedForward = 32768;
  constexpr int64_t kVocabulary = 131072;
  constexpr uint32_t kF32 = 0;
  constexpr uint32_t kQ4 = 2;
  GgufBuilder file;
  const auto number = [&file](const char* key, uint32_t value) {
    file.Key(std::string("llama.") + key, ValueType::kUint32, Bytes(value));
  };
  file.Key("general.architecture", ValueType::kString, StringBytes("llama"));
  number("block_count", kLayers);
  number("embedding_length", kWidth);
  number("feed_forward_length", kFeedForward);
  number("context_length", 8192);
  number("attention.head_count", 48);
  number("attention.head_count_kv", 8);
  number("expert_count", 8);
  number("expert_used_count", 2);
  file.Key("llama.attention.layer_norm_rms_epsilon", ValueType::kFloat32, Bytes(1e-5F));
  uint64_t offset = 0;
  const auto tensor = [&](const std::string& name, const std::vector<int64_t>& shape,
                          uint32_t type) {
    file.TensorAt(name, shape, type, offset);
    int64_t values = 1;
    for (const int64_t dimension : shape) values *= dimension;
    const int64_t bytes = type == kF32 ? values * 4 : values / 32 * 18;
    offset += static_cast<uint64_t>((bytes + 31) / 32 * 32);
  };
  tensor("token_embd.weight", {kWidth, kVocabulary}, kQ4);
  tensor("output.weight", {kWidth, kVocabulary}, kQ4);
  tensor("output_norm.weight", {kWidth}, kF32);
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    tensor(prefix + "attn_norm.weight", {kWidth}, kF32);
    tensor(prefix + "attn_q.weight", {kWidth, 48 * 128}, kQ4);
    tensor(prefix + "attn_k.weight", {kWidth, 8 * 128}, kQ4);
    tensor(prefix + "attn_v.weight", {kWidth, 8 * 128}, kQ4);
    tensor(prefix + "attn_output.weight", {48 * 128, kWidth}, kQ4);
    tensor(prefix + "ffn_norm.weight", {kWidth}, kF32);
    tensor(prefix + "ffn_gate_inp.weight", {kWidth, 8}, kF32);
    tensor(prefix + "ffn_gate_exps.weight", {kWidth, kFeedForward, 8}, kQ4);
    tensor(prefix + "ffn_up_exps.weight", {kWidth, kFeedForward, 8}, kQ4);
    tensor(prefix + "ffn_down_exps.weight", {kFeedForward, kWidth, 8}, kQ4);
  }
  return file.Build();
}

// 256 KiB a token; 316e9 weights of 18 bytes a block of 32 are 166 GiB.
TEST(Plan, DoesTheSumsOfAHugeModelFromItsHeaderAlone) {
  const TemporaryFolder folder;
  folder.Write("huge.gguf", HugeHeader());
  KvCacheConfig kv_cache;
  kv_cache.memory = int64_t{16} << 30;
  const Printed printed = PlanFor(folder / "huge.gguf", {}, kv_cache);
  EXPECT_THAT(printed.text, HasSubstr("165.81 GiB of its weights are not in the file"));
  EXPECT_THAT(printed.text, HasSubstr("2 of 8 experts"));
  EXPECT_THAT(printed.text, HasSubstr("65536 tokens of 262144 bytes in F16, 1024 pages"));
  EXPECT_THAT(printed.text, HasSubstr("16384.0 MiB"));
  EXPECT_THAT(printed.text, HasSubstr("in all"));
  EXPECT_THAT(printed.text, HasSubstr("free"));
  // On all but the largest machines.
  if (FreeMemoryBytes() < int64_t{160} << 30) {
    EXPECT_EQ(printed.status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(printed.status.message(), HasSubstr("needs 1"));
    EXPECT_THAT(printed.status.message(), HasSubstr("the weights alone take 1"));
    EXPECT_THAT(printed.status.message(), HasSubstr("set engine.experts to mapped"));
  }
}

TEST(Plan, TellsWhatMappedExpertsCost) {
  EngineConfig engine;
  engine.experts = ExpertWeights::kMapped;
  const Printed mapped = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), engine);
  ASSERT_TRUE(mapped.status.ok()) << mapped.status.message();
  EXPECT_THAT(mapped.text, HasSubstr("\nexperts "));
  EXPECT_THAT(mapped.text, HasSubstr("\nengine.experts: mapped: "));
  EXPECT_THAT(PlanFor(TestData("tiny/tiny-llama.f32.gguf"), engine).text,
              HasSubstr("engine.experts: mapped has no effect, the model has no experts"));
  EXPECT_THAT(PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf")).text,
              Not(HasSubstr("engine.experts")));
}

TEST(Plan, PrintsTheArithmeticOfWhatDoesNotFit) {
  KvCacheConfig kv_cache;
  kv_cache.memory = int64_t{1} << 50;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), {}, kv_cache);
  EXPECT_EQ(printed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(printed.status.message(), HasSubstr("free: lower kv_cache.memory"));
  EXPECT_THAT(printed.text, HasSubstr("keys and values"));
  EXPECT_THAT(printed.text, HasSubstr("free"));
}

TEST(Plan, ListsTheClassesAndSaysWhichAreDropped) {
  KvCacheConfig kv_cache;
  kv_cache.prealloc_buckets = {128, 256, 1024, 4096};
  kv_cache.bucket_capacity = 6;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), {}, kv_cache);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("\nclasses            128 256 512 tokens, 6 of each\n"));
  EXPECT_THAT(printed.text, HasSubstr("\nkv_cache.prealloc_buckets: 1024, 4096 are above the "
                                      "model's context of 512 and dropped\n"));
}

TEST(Plan, HasNoArenaWhereRoomIsDynamic) {
  KvCacheConfig kv_cache;
  kv_cache.strategy = KvStrategy::kDynamic;
  kv_cache.dynamic_memory_max = 64 * 256 * 64;
  const Printed printed = PlanFor(TestData("tiny/tiny-mixtral.q8_0.gguf"), {}, kv_cache);
  ASSERT_TRUE(printed.status.ok()) << printed.status.message();
  EXPECT_THAT(printed.text, HasSubstr("none: kv_cache.strategy is dynamic"));
  EXPECT_THAT(printed.text, HasSubstr("4096 tokens of 256 bytes in F16, 64 pages"));
  EXPECT_THAT(printed.text, Not(HasSubstr("classes")));
}

TEST(Plan, NamesWhatIsWrongWithTheFile) {
  EXPECT_THAT(PlanFor(TestData("bad/head-count-0.gguf")).status.message(), HasSubstr("head_count"));
}

}  // namespace
}  // namespace remontoir
