// Named streams have the rates and lengths that their recipes promise, and their seeds' draws.
#include "simulation/stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "simulation/stream_file.h"
#include "simulation/trace_file.h"

namespace remontoir {
namespace {

std::vector<Arrival> Trace(const std::string& file) {
  auto trace = ReadTrace(std::string(REMONTOIR_TEST_DATA) + "/traces/" + file);
  EXPECT_TRUE(trace.ok()) << trace.status().message();
  return trace.ok() ? *trace : std::vector<Arrival>();
}

struct Means {
  double prompt = 0;
  double output = 0;
};

Means MeansOf(const std::vector<Arrival>& arrivals) {
  Means means;
  for (const Arrival& arrival : arrivals) {
    means.prompt += arrival.prompt_tokens / static_cast<double>(arrivals.size());
    means.output += arrival.output_tokens / static_cast<double>(arrivals.size());
  }
  return means;
}

TEST(StreamNamed, ThinsAndShortensItsTrace) {
  struct Case {
    const char* name;
    double keep, prompt_divisor, output_divisor;
    int32_t slots;
  };
  constexpr Case kCases[] = {{"convC30", .19, 8, 4, 8},
                             {"convC60", .38, 8, 4, 8},
                             {"codeC30", .40, 8, 2, 8},
                             {"convG60", .60, 1, 1, 32},
                             {"codeG30", 1, 1, 1, 32}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const StreamRecipe recipe = *StreamNamed(c.name);
    EXPECT_EQ(recipe.machine.slots, c.slots);
    const std::vector<Arrival> trace = Trace(recipe.trace);
    ASSERT_FALSE(trace.empty());
    const Means whole = MeansOf(trace);
    const std::vector<Arrival> stream = MakeStream(recipe, trace, 3);
    const double expected = c.keep * static_cast<double>(trace.size());
    EXPECT_NEAR(static_cast<double>(stream.size()), expected, 4 * std::sqrt(expected));
    const Means means = MeansOf(stream);
    EXPECT_NEAR(means.prompt, whole.prompt / c.prompt_divisor, 0.06 * means.prompt);
    EXPECT_NEAR(means.output, whole.output / c.output_divisor, 0.06 * means.output + 0.5);
    EXPECT_LE(stream.back().t_us, trace.back().t_us);
  }
}

TEST(StreamNamed, WholeTraceStaysAsItIs) {
  const StreamRecipe recipe = *StreamNamed("codeG30");
  const std::vector<Arrival> trace = Trace(recipe.trace);
  EXPECT_EQ(MakeStream(recipe, trace, 1), trace);
}

TEST(StreamNamed, BurstsHaveTheirRateAndLengths) {
  const std::vector<Arrival> stream = MakeStream(*StreamNamed("mmppC60"), {}, 1);
  // 0.8/s for 1.5 s, then 20/s for 0.12 s.
  constexpr double kPerS = (0.8 * 1.5 + 20 * 0.12) / 1.62;
  EXPECT_NEAR(static_cast<double>(stream.size()), 7200 * kPerS, 0.06 * 7200 * kPerS);
  const Means means = MeansOf(stream);
  EXPECT_NEAR(means.prompt, 100, 5);
  EXPECT_NEAR(means.output, 30, 2);
  int near = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    EXPECT_GE(stream[i].prompt_tokens, 4);
    EXPECT_GE(stream[i].output_tokens, 2);
    if (i > 0) near += stream[i].t_us - stream[i - 1].t_us < 100'000 ? 1 : 0;
  }
  // Poisson arrivals of this rate would have 20 % of their gaps below 100 ms.
  EXPECT_GT(near, static_cast<int>(stream.size()) * 2 / 5);
}

TEST(StreamNamed, SeedsDiffer) {
  const StreamRecipe recipe = *StreamNamed("mmppC60");
  EXPECT_EQ(MakeStream(recipe, {}, 1), MakeStream(recipe, {}, 1));
  EXPECT_NE(MakeStream(recipe, {}, 1), MakeStream(recipe, {}, 2));
}

TEST(StreamNamed, RefusesAnotherName) {
  const auto stream = StreamNamed("convC90");
  ASSERT_FALSE(stream.ok());
  EXPECT_NE(stream.status().message().find("convC60"), std::string::npos);
}

TEST(Tail, IsOfTimeNotOfCount) {
  const std::vector<Arrival> arrivals = {
      {0, 1, 1}, {10, 1, 1}, {20, 1, 1}, {30, 1, 1}, {100, 1, 1}};
  EXPECT_EQ(Tail(arrivals, 0.75).size(), 1u);
  EXPECT_EQ(Tail(arrivals, 0.25).size(), 2u);
  EXPECT_EQ(Tail(arrivals, 0).size(), 5u);
  EXPECT_TRUE(Tail({}, 0.75).empty());
}

TEST(StreamFile, IsReadAsWritten) {
  const auto recipe = ParseStreamFile(
      "machine: gpu\nslots: 16\ntrace: own.csv\nkeep: 0.5\nprompt_divisor: 4\n", "folder/own.yaml");
  ASSERT_TRUE(recipe.ok()) << recipe.status().message();
  EXPECT_EQ(recipe->name, "own");
  EXPECT_EQ(recipe->trace, "folder/own.csv");
  EXPECT_EQ(recipe->machine.slots, 16);
  EXPECT_EQ(recipe->machine.costs.round_us, 14'000);
  EXPECT_EQ(recipe->keep, 0.5);
  EXPECT_EQ(recipe->prompt_divisor, 4);
}

TEST(StreamFile, ErrorsNameLineAndKey) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"keep: 2\n", "own.yaml:1: keep: "},
      {"slots: 8\nspeed: 3\n", "own.yaml:2: speed: unknown key"},
      {"machine: tpu\n", "own.yaml:1: machine: "},
      {"slots: 0\n", "own.yaml:1: slots: "},
      {"slots: 1\nslots: 2\n", "own.yaml:2: slots: is given twice"},
      {"- 1\n", "own.yaml:1: wants"},
      {"a: [\n", "own.yaml:"},
  };
  for (const auto& [text, message] : kCases) {
    const auto recipe = ParseStreamFile(text, "own.yaml");
    ASSERT_FALSE(recipe.ok()) << text;
    EXPECT_EQ(recipe.status().message().find(message), 0u) << recipe.status().message();
  }
}

TEST(TraceFile, ErrorsNameTheLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"time\n", "t:1: wants a header"},
      {"t_us,prompt_tokens,output_tokens\n", "t: holds no request"},
      {"t_us,prompt_tokens,output_tokens\n1,2\n", "t:2: output_tokens"},
      {"t_us,prompt_tokens,output_tokens\n1,2,x\n", "t:2: output_tokens"},
      {"t_us,prompt_tokens,output_tokens\n1,-2,3\n", "t:2: prompt_tokens"},
      {"t_us,prompt_tokens,output_tokens\n1,2,99999999999999999999\n", "t:2: output_tokens"},
      {"t_us,prompt_tokens,output_tokens\n5,1,1\n4,1,1\n", "t:3: t_us: is before"},
  };
  for (const auto& [text, message] : kCases) {
    const auto trace = ParseTrace(text, "t");
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_EQ(trace.status().message().find(message), 0u) << trace.status().message();
  }
  const auto trace = ParseTrace("t_us,prompt_tokens,output_tokens,client\r\n3,0,7,x\r\n", "t");
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(*trace, (std::vector<Arrival>{{3, 1, 7}}));
}

}  // namespace
}  // namespace remontoir
