// Facts about what can be typed: flags over the file, errors that name the flag, help that teaches.
#include "apps/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<Invocation> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "remontoir");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::string WriteConfig(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/command_line_test.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(CommandLine, PutsFlagsOverTheFile) {
  const std::string path = WriteConfig("server:\n  port: 1111\n  host: 0.0.0.0\n");
  const Result<Invocation> invocation =
      Parse({"serve", "--port", "2222", "--config", path.c_str(), "-m", "a.gguf", "--alias", "one",
             "--alias", "two", "--set", "engine.queue_max=7", "--any-model-name"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const Config& config = std::get<ServeOptions>(invocation->command).engine.config;
  EXPECT_EQ(config.server.port, 2222);
  EXPECT_EQ(config.server.host, "0.0.0.0");
  EXPECT_EQ(config.model.file, "a.gguf");
  EXPECT_THAT(config.model.alias, ElementsAre("one", "two"));
  EXPECT_EQ(config.engine.queue_max, 7);
  EXPECT_TRUE(config.server.any_model_name);
}

TEST(CommandLine, ReadsTheFlagsOfServing) {
  const Result<Invocation> invocation =
      Parse({"serve", "--enable-kv-prefetch", "--use-custom-flash-attn"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const EngineChoice& engine = std::get<ServeOptions>(invocation->command).engine;
  EXPECT_EQ(engine.config.attention.mode, AttentionMode::kAuto);
  EXPECT_EQ(engine.config.kv_cache.strategy, KvStrategy::kBucketedPreallocV2);
  EXPECT_TRUE(engine.config.kv_cache.lock);
}

TEST(CommandLine, ReadsEvalLogits) {
  const Result<Invocation> invocation =
      Parse({"eval", "logits", "a.gguf", "--reference", "a.npy", "--tokens", "1,22,333", "--rms",
             "0.5", "--compute", "f32", "--json"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const auto& eval = std::get<EvalLogitsOptions>(invocation->command);
  EXPECT_EQ(eval.engine.config.model.file, "a.gguf");
  EXPECT_EQ(eval.engine.compute, ComputeChoice::kF32);
  EXPECT_EQ(eval.reference, "a.npy");
  EXPECT_THAT(eval.tokens, ElementsAre(1, 22, 333));
  EXPECT_EQ(eval.bounds.rms_relative, 0.5);
  EXPECT_FALSE(eval.bounds.max_abs.has_value());
  EXPECT_TRUE(eval.json);
}

TEST(CommandLine, ReadsEvalLongContext) {
  const Result<Invocation> invocation =
      Parse({"eval",  "longcontext",       "a.gguf", "--text",    "t.txt", "--context",
             "32768", "--rope-base-scale", "4",      "--epsilon", "0.2",   "--block-keys",
             "32",    "--decode",          "9",      "--needles", "64",    "--compute",
             "f32",   "--no-rounding"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const auto& eval = std::get<EvalLongContextOptions>(invocation->command);
  EXPECT_EQ(eval.model, "a.gguf");
  EXPECT_EQ(eval.text_file, "t.txt");
  EXPECT_EQ(eval.context, 32768);
  EXPECT_EQ(eval.rope_base_scale, 4);
  EXPECT_EQ(eval.epsilon, 0.2);
  EXPECT_EQ(eval.block_keys, 32);
  EXPECT_EQ(eval.decode, 9);
  EXPECT_EQ(eval.needles, 64);
  EXPECT_EQ(eval.compute, ComputeChoice::kF32);
  EXPECT_FALSE(eval.rounding);
  EXPECT_FALSE(eval.json);
}

TEST(CommandLine, ReadsRun) {
  const Result<Invocation> invocation = Parse(
      {"run", "a.gguf", "-p", "Hello", "--seed", "7", "--temperature", "0", "--max-tokens", "5"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const RunOptions& run = std::get<RunOptions>(invocation->command);
  EXPECT_EQ(run.engine.config.model.file, "a.gguf");
  EXPECT_EQ(run.prompt, "Hello");
  EXPECT_EQ(run.seed, 7);
  EXPECT_EQ(run.temperature, 0);
  EXPECT_EQ(run.max_tokens, 5);
}

TEST(CommandLine, ReadsInspect) {
  const Result<Invocation> invocation = Parse({"inspect", "a.gguf", "--tensors"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  EXPECT_EQ(std::get<InspectOptions>(invocation->command).file, "a.gguf");
  EXPECT_TRUE(std::get<InspectOptions>(invocation->command).tensors);
}

TEST(CommandLine, ReadsHubCommands) {
  const auto pull = Parse({"pull", "hf:o/r:Q4_0"});
  ASSERT_TRUE(pull.ok()) << pull.status().message();
  EXPECT_EQ(std::get<PullCommand>(pull->command).reference, "hf:o/r:Q4_0");
  EXPECT_TRUE(std::holds_alternative<ListCommand>(Parse({"list"})->command));
  EXPECT_EQ(std::get<RemoveCommand>(Parse({"rm", "o/r/a.gguf"})->command).name, "o/r/a.gguf");
}

TEST(CommandLine, TakesAReferenceInPlaceOfAModel) {
  for (const char* flag : {"-hf", "--hf"}) {
    const auto serve = Parse({"serve", flag, "o/r:Q4_0", "--port", "1"});
    ASSERT_TRUE(serve.ok()) << serve.status().message();
    EXPECT_EQ(std::get<ServeOptions>(serve->command).engine.config.model.file, "hf:o/r:Q4_0");
    const auto run = Parse({"run", flag, "hf:o/r/a.gguf", "-p", "x"});
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_EQ(std::get<RunOptions>(run->command).engine.config.model.file, "hf:o/r/a.gguf");
  }
}

TEST(CommandLine, ReadsTrainPredictor) {
  const Result<Invocation> invocation =
      Parse({"train-predictor", "log.csv", "--out", "p.safetensors", "--tick-ms", "50", "--hidden",
             "16", "--epochs", "3", "--seed", "9", "--selftest"});
  ASSERT_TRUE(invocation.ok()) << invocation.status().message();
  const TrainOptions& train = std::get<TrainOptions>(invocation->command);
  EXPECT_EQ(train.log, "log.csv");
  EXPECT_EQ(train.out, "p.safetensors");
  EXPECT_EQ(train.tick_ms, 50);
  EXPECT_EQ(train.hidden, 16);
  EXPECT_EQ(train.epochs, 3);
  EXPECT_EQ(train.seed, 9U);
  EXPECT_TRUE(train.selftest);
  EXPECT_FALSE(Parse({"train-predictor", "log.csv", "--tick-ms", "30"}).ok());
  EXPECT_FALSE(Parse({"train-predictor"}).ok());
}

TEST(CommandLine, SaysWhatIsWrong) {
  const std::string path = WriteConfig("server:\n  prot: 1\n");
  const struct {
    std::vector<const char*> arguments;
    const char* message;
  } kCases[] = {
      {{}, "subcommand is required"},
      {{"sevre"}, "sevre is no command; did you mean serve?"},
      {{"inspect"}, "file is required"},
      {{"run"}, "model is required"},
      {{"run", "-hf", "model"}, "-hf: model reference 'model': no '/'"},
      {{"pull"}, "reference is required"},
      {{"pull", "hf:../r"}, "the owner is no name of the hub"},
      {{"rm"}, "name is required"},
      {{"serve", "--prot", "80"}, "--prot is no flag of `serve`; did you mean --port?"},
      {{"inspect", "a.gguf", "--tensor"}, "did you mean --tensors?"},
      {{"serve", "--port", "many"}, "--port: server.port: wants a whole number from 0 to 65535"},
      {{"serve", "--compute", "f64"}, "--compute"},
      {{"serve", "--set", "engine.thread=2"},
       "--set: engine.thread: unknown key; did you mean engine.threads?"},
      {{"serve", "--set", "nonsense"}, "wants KEY=VALUE, not nonsense"},
      {{"serve", "--config", path.c_str()},
       "command_line_test.yaml:2: server.prot: unknown key; did you mean server.port?"},
      {{"serve", "--config", "/no/such.yaml"}, "/no/such.yaml: can't be opened"},
      {{"run", "a.gguf", "--temperature", "3"}, "--temperature"},
      {{"run", "a.gguf", "--port", "80"}, "--port is no flag of `run`"},
  };
  for (const auto& test : kCases) {
    const Result<Invocation> invocation = Parse(test.arguments);
    ASSERT_FALSE(invocation.ok()) << test.message;
    EXPECT_THAT(invocation.status().message(), HasSubstr(test.message));
  }
}

TEST(CommandLine, TeachesInHelp) {
  for (const char* command : {"serve", "run", "inspect", "pull", "rm"}) {
    const Result<Invocation> invocation = Parse({command, "--help"});
    ASSERT_TRUE(invocation.ok()) << invocation.status().message();
    EXPECT_THAT(invocation->text, HasSubstr("Examples:"));
    EXPECT_THAT(invocation->text, HasSubstr(std::string("remontoir ") + command + " "));
  }
  EXPECT_THAT(Parse({"--help"})->text, HasSubstr("inspect"));
  EXPECT_THAT(Parse({"--version"})->text, StartsWith("remontoir 0."));
}

}  // namespace
}  // namespace remontoir
