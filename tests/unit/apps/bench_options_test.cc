// Facts about how `bench` is typed.
#include "apps/bench_options.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "apps/command_line.h"

namespace remontoir {
namespace {

Result<Invocation> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "remontoir");
  return ParseCommandLine(static_cast<int>(words.size()), words.data());
}

TEST(BenchOptions, ListsAreSplitAtCommas) {
  const Result<Invocation> parsed = Parse({"bench", "engine", "--model", "m.gguf", "--prompt",
                                           "32,512", "--depth", "0", "--rounds", "9", "--json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto* options = std::get_if<BenchEngineOptions>(&parsed->command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->file, "m.gguf");
  EXPECT_EQ(options->prompts, (std::vector<int32_t>{32, 512}));
  EXPECT_EQ(options->depths, (std::vector<int32_t>{0}));
  EXPECT_EQ(options->batches, BenchEngineOptions().batches);
  EXPECT_EQ(options->rounds, 9);
  EXPECT_TRUE(options->json);
  EXPECT_FALSE(options->worker);
}

TEST(BenchOptions, TheStepsProfileTakesTheSameRows) {
  const Result<Invocation> parsed = Parse(
      {"bench", "engine", "--model", "m.gguf", "--steps-profile", "--prompt", "512", "--json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto* options = std::get_if<BenchEngineOptions>(&parsed->command);
  ASSERT_NE(options, nullptr);
  EXPECT_TRUE(options->steps_profile);
  EXPECT_EQ(options->prompts, (std::vector<int32_t>{512}));
}

TEST(BenchOptions, KernelsTakeAnInstructionSetAndAFilter) {
  const Result<Invocation> parsed =
      Parse({"bench", "kernels", "--isa", "avx2", "--filter", "Q4_1"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto* options = std::get_if<BenchKernelsOptions>(&parsed->command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->isa, "avx2");
  EXPECT_EQ(options->filter, "Q4_1");
}

TEST(BenchOptions, AttentionNeedsAModelAlone) {
  const Result<Invocation> parsed =
      Parse({"bench", "attention", "--model", "m.gguf", "--text", "t.txt", "--quick", "--json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto* options = std::get_if<BenchAttentionOptions>(&parsed->command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->file, "m.gguf");
  EXPECT_EQ(options->text_file, "t.txt");
  EXPECT_TRUE(options->quick);
  EXPECT_TRUE(options->json);
  EXPECT_FALSE(Parse({"bench", "attention", "--quick"}).ok());
}

TEST(BenchOptions, WhatMakesNoSenseIsRefused) {
  const std::vector<std::vector<const char*>> kCases = {
      {"bench"},
      {"bench", "engine"},
      {"bench", "engine", "--model", "m.gguf", "--prompt", "many"},
      {"bench", "engine", "--model", "m.gguf", "--rounds", "0"},
      {"bench", "engine", "--model", "m.gguf", "--threads", "-1"},
      {"bench", "kernels", "--model", "m.gguf"},
  };
  for (const auto& words : kCases) EXPECT_FALSE(Parse(words).ok()) << words.back();
}

TEST(BenchKvOptions, AModelIsOptional) {
  const auto plain = Parse({"bench", "kv"});
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(std::get<BenchKvOptions>(plain->command).file, "");
  const auto full =
      Parse({"bench", "kv", "--model", "m.gguf", "--rounds", "3", "--threads", "2", "--json"});
  ASSERT_TRUE(full.ok()) << full.status().message();
  const auto& options = std::get<BenchKvOptions>(full->command);
  EXPECT_EQ(options.file, "m.gguf");
  EXPECT_EQ(options.rounds, 3);
  EXPECT_EQ(options.threads, 2);
  EXPECT_TRUE(options.json);
}

}  // namespace
}  // namespace remontoir
