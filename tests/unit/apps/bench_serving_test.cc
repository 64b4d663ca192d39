// Facts about how `bench serving` is typed, and what it refuses before anything is sent.
#include "apps/bench_serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "apps/command_line.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Invocation> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), {"remontoir", "bench", "serving"});
  return ParseCommandLine(static_cast<int>(words.size()), words.data());
}

BenchServingOptions Options(const std::vector<const char*>& words) {
  const Result<Invocation> parsed = Parse(words);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  const auto* options = parsed.ok() ? std::get_if<BenchServingOptions>(&parsed->command) : nullptr;
  return options == nullptr ? BenchServingOptions() : *options;
}

TEST(BenchServing, TakesAnOpenLoopWithItsLengths) {
  const BenchServingOptions options = Options(
      {"--url", "http://h:1", "--rate", "0.8", "--seconds", "600", "--short-tokens", "20-60",
       "--long-tokens", "1500", "--output-tokens", "16-32", "--long-share", "0.25", "--seed", "7",
       "--header", "x-slo-ttft-ms: 500", "--header", "X-Priority: high", "--completions", "--json"});
  EXPECT_EQ(options.url, "http://h:1");
  EXPECT_EQ(options.rate, 0.8);
  EXPECT_EQ(options.seconds, 600);
  EXPECT_EQ(options.shape.short_prompt.low, 20);
  EXPECT_EQ(options.shape.short_prompt.high, 60);
  EXPECT_EQ(options.shape.long_prompt.low, 1500);
  EXPECT_EQ(options.shape.long_prompt.high, 1500);
  EXPECT_EQ(options.shape.output.high, 32);
  EXPECT_EQ(options.shape.long_share, 0.25);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_THAT(options.headers, ElementsAre("x-slo-ttft-ms: 500", "X-Priority: high"));
  EXPECT_TRUE(options.completions);
  EXPECT_TRUE(options.json);
}

TEST(BenchServing, RefusesWhatMakesNoSense) {
  const std::vector<std::vector<const char*>> kCases = {
      {"--rate", "0"},
      {"--rate", "fast"},
      {"--clients", "0"},
      {"--short-tokens", "60-20"},
      {"--short-tokens", "0-20"},
      {"--short-tokens", "20-"},
      {"--output-tokens", "-5"},
      {"--long-share", "1.5"},
      {"--header", "no colon"},
      {"--header", "X: 1\r\nY: 2"},
      {"--speed", "3"},
  };
  for (const auto& words : kCases) EXPECT_FALSE(Parse(words).ok()) << words[0] << " " << words[1];
}

TEST(BenchServing, WantsOneLoadThatEnds) {
  const struct {
    std::vector<const char*> words;
    const char* message;
  } kCases[] = {
      {{}, "one load"},
      {{"--rate", "1", "--seconds", "1", "--clients", "2"}, "one load"},
      {{"--clients", "2", "--pulse", "2", "--requests", "3"}, "one load"},
      {{"--rate", "1"}, "--seconds"},
      {{"--rate", "1", "--seconds", "1", "--requests", "5"}, "--seconds"},
      {{"--clients", "2"}, "--requests or --seconds"},
      {{"--rate", "1", "--seconds", "1", "--think-s", "1"}, "--think-s"},
      {{"--trace", "/nonexistent.csv"}, "/nonexistent.csv"},
      {{"--clients", "2", "--requests", "2", "--url", "https://h"}, "http alone"},
  };
  for (const auto& [words, message] : kCases) {
    const Status status = BenchServing(Options(words), stdout);
    EXPECT_THAT(status.message(), HasSubstr(message)) << words.size();
  }
}

TEST(BenchServing, SaysThatNobodyAnswersTheWarmUp) {
  // Port 1 of this machine: nobody listens there.
  const Status status =
      BenchServing(Options({"--url", "http://127.0.0.1:1", "--clients", "1", "--requests", "1"}),
                   stdout);
  EXPECT_THAT(status.message(), HasSubstr("warming up: unreachable"));
}

}  // namespace
}  // namespace remontoir
