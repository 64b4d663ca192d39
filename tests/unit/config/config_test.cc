// Facts about inference_config.yaml: what is read, what is refused, and with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "config/keys.h"
#include "config/load.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseConfig, GivesDefaultsForNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "server:\n", "---\n"}) {
    const Result<Config> loaded = ParseConfig(text, "c.yaml");
    ASSERT_TRUE(loaded.ok()) << text << loaded.status().message();
    EXPECT_EQ(loaded->server.port, 8080);
    EXPECT_EQ(loaded->engine.sequences_max, 8);
    EXPECT_FALSE(loaded->kv_cache.memory.has_value());
  }
}

TEST(ParseConfig, ReadsEverySection) {
  const Result<Config> loaded = ParseConfig(R"(
model:
  file: models/small.gguf
  alias: [small, "123"]
  context: 4096
  rope_freq_scale: 0.5
  rope_freq_base_scale: 2
server: {host: 0.0.0.0, port: 0, any_model_name: true}
engine:
  threads: 2
  queue_max: 3
  ttft_slo_ms: 1500
  single_when_not_streaming: true
  experts: mapped
kv_cache:
  memory: 1.5 GiB
  type: bf16
dynamic_batching:
  enabled: false
  policy: immediate
  min_window_ms: 20.5
telemetry:
  log_level: error
  arrival_log: arrivals.csv
  arrival_log_bytes_max: 2 MiB
)",
                                            "c.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Config& config = *loaded;
  EXPECT_EQ(config.model.file, "models/small.gguf");
  EXPECT_THAT(config.model.alias, ElementsAre("small", "123"));
  EXPECT_EQ(config.model.context, 4096);
  EXPECT_EQ(config.model.rope_freq_scale, 0.5);
  EXPECT_EQ(config.model.rope_freq_base_scale, 2);
  EXPECT_EQ(config.server.host, "0.0.0.0");
  EXPECT_EQ(config.server.port, 0);
  EXPECT_TRUE(config.server.any_model_name);
  EXPECT_EQ(config.engine.threads, 2);
  EXPECT_EQ(config.engine.queue_max, 3);
  EXPECT_EQ(config.kv_cache.memory, int64_t{3} << 29);
  EXPECT_EQ(config.kv_cache.type, KvType::kBF16);
  EXPECT_FALSE(config.dynamic_batching.enabled);
  EXPECT_EQ(config.dynamic_batching.policy, BatchingPolicy::kImmediate);
  EXPECT_EQ(config.dynamic_batching.min_window_ms, 20.5);
  EXPECT_EQ(config.engine.ttft_slo_ms, 1500);
  EXPECT_TRUE(config.engine.single_when_not_streaming);
  EXPECT_EQ(config.engine.experts, ExpertWeights::kMapped);
  EXPECT_EQ(config.telemetry.log_level, LogVerbosity::kError);
  EXPECT_EQ(config.telemetry.arrival_log, "arrivals.csv");
  EXPECT_EQ(config.telemetry.arrival_log_bytes_max, 2 << 20);
}

TEST(ParseConfig, RefusesWithPlaceKeyAndReason) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"engine:\n  thread: 2\n",
       "c.yaml:2: engine.thread: unknown key; did you mean engine.threads?"},
      {"\nengine:\n  threads: 2\n  port: 80\n",
       "c.yaml:4: engine.port: unknown key; did you mean server.port?"},
      {"kv_cache:\n  memmory: auto\n",
       "c.yaml:2: kv_cache.memmory: unknown key; did you mean kv_cache.memory?"},
      {"port: 80\n", "c.yaml:1: port: unknown key; did you mean server.port?"},
      {"sever:\n  port: 80\n", "c.yaml:1: sever: unknown key; did you mean server?"},
      {"server:\n  colour: red\n", "c.yaml:2: server.colour: unknown key"},
      {"server:\n  port: many\n",
       "c.yaml:2: server.port: wants a whole number from 0 to 65535, not \"many\""},
      {"server:\n  port: 65536\n", "from 0 to 65535, not \"65536\""},
      {"server:\n  port: 80.5\n", "not \"80.5\""},
      {"server:\n  port: \"80\"\n", "not \"80\" in quotes"},
      {"server:\n  port: [80]\n", "not a list"},
      {"server:\n  port: {a: 1}\n", "not a mapping"},
      {"server:\n  port:\n",
       "c.yaml:2: server.port: wants a whole number from 0 to 65535, not nothing"},
      {"server:\n  any_model_name: yes\n", "wants true or false, not \"yes\""},
      {"engine:\n  threads: 0\n",
       "engine.threads: auto, or: wants a whole number from 1 to 1024, not \"0\""},
      {"kv_cache:\n  type: q4_0\n",
       "kv_cache.type: wants one of f16, bf16, f32, q8_0, not \"q4_0\""},
      {"kv_cache:\n  memory: 2 gigs\n", "wants a memory size such as 512 MiB or 2 GiB, or auto"},
      {"model:\n  rope_freq_scale: .nan\n", "wants a number from 0.001 to 1000"},
      {"model:\n  rope_freq_scale: inf\n", "wants a number from 0.001 to 1000"},
      {"model:\n  alias: [a, [b]]\n", "model.alias: wants text, not a list"},
      {"model:\n  alias: [a, \"\"]\n", "model.alias: wants text"},
      {"kv_cache:\n  prealloc_buckets: [4096, 2048]\n", "ascending order"},
      {"dynamic_batching:\n  min_window_ms: 200\n",
       "c.yaml: dynamic_batching.min_window_ms: is larger than"},
      {"server:\n  port: 1\n  port: 2\n", "c.yaml:3: server.port: is given twice"},
      {"server:\n  port: 1\nserver:\n  port: 2\n", "c.yaml:3: server: is given twice"},
      {"server: 8080\n", "c.yaml:1: server: wants keys below it"},
      {"- server\n", "c.yaml:1: wants sections such as `server:`"},
      {"just words\n", "c.yaml:1: wants sections"},
      {"server:\n\tport: 1\n", "c.yaml:2: "},
      {"server: {port: 1\n", "c.yaml:"},
      {"server: *nowhere\n", "c.yaml:1: "},
      {"? [a, b]\n: 1\n", "c.yaml:1: (not a word): unknown key"},
      {"a: 1\n---\nb: 2\n", "wants one YAML document"},
  };
  for (const auto& test : kCases) {
    const Result<Config> loaded = ParseConfig(test.text, "c.yaml");
    ASSERT_FALSE(loaded.ok()) << test.text;
    EXPECT_THAT(loaded.status().message(), HasSubstr(test.message)) << test.text;
    EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument) << test.text;
  }
}

TEST(ParseConfig, ReadsKeysOfSeveralSectionsTogether) {
  const Result<Config> loaded = ParseConfig(
      "kv_cache:\n  strategy: dynamic\n  type: q8_0\n  prealloc_buckets: [64]\n"
      "  bucket_capacity: 3\n  dynamic_memory_max: 1 GiB\ndynamic_batching:\n  policy: legacy\n"
      "engine:\n  ttft_slo_ms: 200\nattention:\n  mode: auto\n  block_keys: 32\n"
      "model:\n  compat: llama.cpp\n",
      "c.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
}

TEST(ParseConfig, ReadsTheAttentionKeys) {
  const Result<Config> loaded = ParseConfig(
      "attention: {mode: custom_sparse, epsilon: 0.2, block_keys: 32, residual_max: 0.5}\n",
      "c.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->attention.mode, AttentionMode::kCustomSparse);
  EXPECT_EQ(loaded->attention.epsilon, 0.2);
  EXPECT_EQ(loaded->attention.block_keys, 32);
  EXPECT_EQ(loaded->attention.residual_max, 0.5);
  for (const char* bad : {"attention: {block_keys: 24}\n", "attention: {epsilon: 1}\n",
                          "attention: {mode: fast}\n"}) {
    EXPECT_FALSE(ParseConfig(bad, "c.yaml").ok()) << bad;
  }
}

TEST(ReadMemorySize, KnowsBinaryAndDecimalUnits) {
  const struct {
    const char* text;
    int64_t bytes;
  } kCases[] = {
      {"2 GiB", int64_t{2} << 30},
      {"512MiB", 512 << 20},
      {"64 kib", 64 << 10},
      {"1.5 GiB", int64_t{3} << 29},
      {"4096", 4096},
      {"1 TB", 1'000'000'000'000},
      {"7 b", 7},
  };
  for (const auto& test : kCases) {
    const Result<int64_t> bytes = ReadMemorySize(ScalarValue(test.text));
    ASSERT_TRUE(bytes.ok()) << test.text;
    EXPECT_EQ(*bytes, test.bytes) << test.text;
  }
  for (const char* text :
       {"", "GiB", "-1", "0", "1e9", "9999999 TiB", "2 GiB 3", "1..5 GiB", "2G"}) {
    EXPECT_FALSE(ReadMemorySize(ScalarValue(text)).ok()) << text;
  }
}

TEST(LoadConfig, NamesTheFileThatIsMissing) {
  const Result<Config> loaded = LoadConfig("/no/such/file.yaml");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().message(), "/no/such/file.yaml: can't be opened");
}

TEST(LoadConfig, RefusesAFileThatIsNoConfiguration) {
  const std::string path = ::testing::TempDir() + "/large.yaml";
  std::ofstream(path) << std::string((1 << 20) + 1, 'a');
  EXPECT_THAT(LoadConfig(path).status().message(), HasSubstr("is larger than 1 MiB"));
}

// Shipped files, read from the source tree.
std::string SourceFile(const std::string& name) {
  std::ifstream file(std::string(REMONTOIR_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ShippedConfig, IsReadWithoutAnError) {
  const Result<Config> loaded =
      LoadConfig(std::string(REMONTOIR_SOURCE_DIR) + "/inference_config.yaml");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
}

TEST(ShippedConfig, ShowsEveryKeyWithADefaultThatIsRead) {
  const std::string text = SourceFile("inference_config.yaml");
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string last(key.name.substr(key.name.find('.') + 1));
    EXPECT_THAT(text, HasSubstr(" " + last + ": " + std::string(key.default_value))) << key.name;
    if (key.default_value.empty()) continue;
    const size_t dot = key.name.find('.');
    const std::string document = std::string(key.name.substr(0, dot)) + ": {" + last + ": " +
                                 std::string(key.default_value) + "}";
    const Result<Config> loaded = ParseConfig(document, "c.yaml");
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  }
}

TEST(ConfigurationPage, ListsEveryKeyAsTheTableHasIt) {
  const std::string page = SourceFile("docs/configuration.md");
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string shown =
        key.default_value.empty() ? "" : "`" + std::string(key.default_value) + "`";
    const std::string row = "| `" + std::string(key.name) + "` | " + std::string(key.type) + " | " +
                            shown + " | " + std::string(key.what) + " |";
    EXPECT_THAT(page, HasSubstr(row));
  }
}

}  // namespace
}  // namespace remontoir
