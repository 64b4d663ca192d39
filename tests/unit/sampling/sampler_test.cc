// Draws follow the probabilities that each parameter leaves, whatever was drawn before.
#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"

namespace remontoir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits of the given probabilities (or of numbers in proportion to them).
std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) {
    logits.push_back(p > 0 ? static_cast<float>(std::log(p)) : -kInf);
  }
  return logits;
}

std::map<int32_t, int> DrawMany(std::span<const float> logits, const SamplingParams& params,
                                int draws, const TokenCounts* counts = nullptr) {
  Sampler sampler(static_cast<int32_t>(logits.size()));
  std::map<int32_t, int> drawn;
  for (int i = 0; i < draws; ++i) ++drawn[Index(sampler.Sample(logits, params, counts, i))];
  return drawn;
}

// Pearson's statistic over the tokens that may be drawn; fails on any other token.
double ChiSquare(const std::map<int32_t, int>& drawn, const std::vector<double>& expected,
                 int draws) {
  double statistic = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto found = drawn.find(static_cast<int32_t>(i));
    const int count = found == drawn.end() ? 0 : found->second;
    if (expected[i] == 0) {
      EXPECT_EQ(count, 0) << "token " << i << " must not be drawn";
      continue;
    }
    const double mean = expected[i] * draws;
    statistic += (count - mean) * (count - mean) / mean;
  }
  return statistic;
}

struct DistributionCase {
  std::string name;
  std::vector<double> weights;
  SamplingParams params;
  std::vector<double> expected;  // normalised by the test
};

std::vector<DistributionCase> DistributionCases() {
  const std::vector<double> six = {0.05, 0.4, 0.1, 0.25, 0.15, 0.05};
  std::vector<DistributionCase> cases;
  const auto add = [&](std::string name, const std::vector<double>& weights, auto set,
                       std::vector<double> expected) {
    SamplingParams params;
    params.seed = 11;
    set(params);
    cases.push_back({std::move(name), weights, params, std::move(expected)});
  };
  add(
      "nothing", six, [](SamplingParams&) {}, six);
  add("temperature 0.5 squares", six, [](SamplingParams& p) { p.temperature = 0.5; },
      {.0025, .16, .01, .0625, .0225, .0025});
  add("temperature 2 takes roots", {1, 4, 9, 16}, [](SamplingParams& p) { p.temperature = 2; },
      {1, 2, 3, 4});
  add("top_k 1", six, [](SamplingParams& p) { p.top_k = 1; }, {0, 1, 0, 0, 0, 0});
  add("top_k 3", six, [](SamplingParams& p) { p.top_k = 3; }, {0, 40, 0, 25, 15, 0});
  add("top_k cuts ties by id", six, [](SamplingParams& p) { p.top_k = 5; }, {5, 40, 10, 25, 15, 0});
  add(
      "top_k above the vocabulary", six, [](SamplingParams& p) { p.top_k = 99; }, six);
  add("top_p 0 keeps the best", six, [](SamplingParams& p) { p.top_p = 0; }, {0, 1, 0, 0, 0, 0});
  add("top_p within the best", six, [](SamplingParams& p) { p.top_p = 0.39f; }, {0, 1, 0, 0, 0, 0});
  add("top_p one beyond", six, [](SamplingParams& p) { p.top_p = 0.41f; }, {0, 40, 0, 25, 0, 0});
  add("top_p keeps the token that reaches it", six, [](SamplingParams& p) { p.top_p = 0.7f; },
      {0, 40, 0, 25, 15, 0});
  add("top_p counts among top_k", six,
      [](SamplingParams& p) {
        p.top_k = 2;      // 40 and 25 of 65
        p.top_p = 0.61f;  // the best alone has 0.615
      },
      {0, 1, 0, 0, 0, 0});
  add("min_p", six, [](SamplingParams& p) { p.min_p = 0.3f; }, {0, 40, 0, 25, 15, 0});
  add("min_p 1 keeps the best", six, [](SamplingParams& p) { p.min_p = 1; }, {0, 1, 0, 0, 0, 0});
  add("min_p after top_p", six,
      [](SamplingParams& p) {
        p.top_p = 0.75f;  // 40, 25, 15
        p.min_p = 0.5f;   // at least 20
      },
      {0, 40, 0, 25, 0, 0});
  add("impossible tokens are never drawn", {0, 1, 0, 1}, [](SamplingParams&) {}, {0, 1, 0, 1});
  return cases;
}

TEST(Sampler, DrawsInProportionToWhatTheFiltersLeave) {
  constexpr int kDraws = 20'000;
  for (DistributionCase& c : DistributionCases()) {
    SCOPED_TRACE(c.name);
    double sum = 0;
    for (const double e : c.expected) sum += e;
    for (double& e : c.expected) e /= sum;
    const auto drawn = DrawMany(LogitsOf(c.weights), c.params, kDraws);
    // Five degrees of freedom at most: 20.5 is passed once in a thousand draws of a seed.
    EXPECT_LT(ChiSquare(drawn, c.expected, kDraws), 20.5);
  }
}

TEST(Sampler, DrawsInProportionFromALargeVocabulary) {
  // 1,000 tokens of equal weight in one class, 200 ten times as likely in the other.
  std::vector<float> logits(1'200, 0.0f);
  for (int i = 1'000; i < 1'200; ++i) logits[i] = std::log(10.0f);
  constexpr int kDraws = 6'000;
  for (const bool filtered : {false, true}) {
    SamplingParams params;
    params.seed = 5;
    if (filtered) params.top_p = 0.999999f;
    int likely = 0;
    Sampler sampler(1'200);
    for (int i = 0; i < kDraws; ++i) {
      if (Index(sampler.Sample(logits, params, nullptr, i)) >= 1'000) ++likely;
    }
    const double p = 2'000.0 / 3'000;
    EXPECT_NEAR(likely, kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p)));
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheBest) {
  const struct {
    std::vector<float> logits;
    int32_t expected;
  } cases[] = {
      {{1, 3, 2, 3}, 1}, {{-5, -5, -5}, 0},       {{kNan, 1, kNan, 2}, 3},
      {{kNan, kNan}, 0}, {{-kInf, -kInf, -3}, 2}, {{1, kInf, 5, kInf}, 1},
      {{7}, 0},
  };
  for (const auto& c : cases) {
    for (const float temperature : {0.0f, 1e-6f}) {
      SamplingParams params;
      params.temperature = temperature;
      Sampler sampler(static_cast<int32_t>(c.logits.size()));
      EXPECT_EQ(Index(sampler.Sample(c.logits, params, nullptr, 3)), c.expected);
    }
  }
}

TEST(Sampler, StaysDefinedOnOddLogits) {
  const struct {
    std::vector<float> logits;
    std::vector<int32_t> possible;
  } cases[] = {
      {{kNan, 1, -kInf}, {1}},   {{kNan, kNan, -kInf}, {0}}, {{kInf, 0, 5}, {0}},
      {{kInf, 0, kInf}, {0, 2}}, {{-1e38f, 1e38f, 0}, {1}},
  };
  for (const auto& c : cases) {
    for (const bool filtered : {false, true}) {
      SamplingParams params;
      params.top_k = filtered ? 2 : 0;
      params.top_p = filtered ? 0.9f : 1;
      for (const auto& [token, count] : DrawMany(c.logits, params, 200)) {
        EXPECT_THAT(c.possible, ::testing::Contains(token));
      }
    }
  }
}

TEST(Sampler, AddsBiasAndPenaltiesByHand) {
  // Greedy over two tokens tells on which side of a number the adjusted logit of token 0 lies.
  TokenCounts counts(2, 100);
  using Params = SamplingParams;
  const struct {
    std::string name;
    float logit;
    int in_prompt;
    int in_output;
    void (*set)(Params&);
    float expected;
  } cases[] = {
      {"bias", 2, 0, 0,
       [](Params& p) {
         p.logit_bias = {{TokenId(0), -1.5f}};
       },
       0.5f},
      {"repetition divides a positive", 2, 1, 0, [](Params& p) { p.repetition_penalty = 2; }, 1},
      {"repetition multiplies a negative", -2, 1, 0, [](Params& p) { p.repetition_penalty = 2; },
       -4},
      {"repetition counts once", 2, 3, 4, [](Params& p) { p.repetition_penalty = 2; }, 1},
      {"repetition spares the unseen", 2, 0, 0, [](Params& p) { p.repetition_penalty = 2; }, 2},
      {"frequency counts the output", 2, 5, 3, [](Params& p) { p.frequency_penalty = 0.5f; }, 0.5f},
      {"frequency may reward", 2, 0, 2, [](Params& p) { p.frequency_penalty = -1; }, 4},
      {"presence counts once", 2, 5, 3, [](Params& p) { p.presence_penalty = 1.5f; }, 0.5f},
      {"presence spares the prompt", 2, 5, 0, [](Params& p) { p.presence_penalty = 1.5f; }, 2},
      {"all together", 3, 1, 2,
       [](Params& p) {
         p.logit_bias = {{TokenId(0), 1}};
         p.repetition_penalty = 2;
         p.frequency_penalty = 0.25f;
         p.presence_penalty = 0.125f;
       },
       (3.0f + 1) / 2 - 0.5f - 0.125f},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    counts.Reset();
    for (int i = 0; i < c.in_prompt; ++i) counts.AddPrompt(TokenId(0));
    for (int i = 0; i < c.in_output; ++i) counts.AddOutput(TokenId(0));
    SamplingParams params;
    c.set(params);
    params.temperature = 0;
    Sampler sampler(2);
    const std::vector<float> below = {c.logit, c.expected - 0.001f};
    const std::vector<float> above = {c.logit, c.expected + 0.001f};
    EXPECT_EQ(Index(sampler.Sample(below, params, &counts, 0)), 0);
    EXPECT_EQ(Index(sampler.Sample(above, params, &counts, 0)), 1);
  }
}

TEST(Sampler, DependsOnItsArgumentsAlone) {
  const CounterRandom random(99, 0);
  constexpr int32_t kVocabulary = 700;
  std::vector<std::vector<float>> rows(8, std::vector<float>(kVocabulary));
  std::vector<SamplingParams> params(8);
  uint64_t n = 0;
  for (int row = 0; row < 8; ++row) {
    for (float& logit : rows[row]) logit = static_cast<float>(random.Uniform(n++) * 12);
    params[row].seed = row;
    params[row].temperature = 0.25f * static_cast<float>(row);
    params[row].top_k = row % 3 * 20;
    params[row].top_p = row % 2 == 0 ? 1 : 0.8f;
    params[row].min_p = row % 4 == 3 ? 0.05f : 0;
  }
  std::vector<TokenId> alone;
  for (int row = 0; row < 8; ++row) {
    Sampler sampler(kVocabulary);
    for (int position = 0; position < 50; ++position) {
      alone.push_back(sampler.Sample(rows[row], params[row], nullptr, position));
    }
  }
  Sampler shared(kVocabulary);
  for (int position = 49; position >= 0; --position) {
    for (int row = 0; row < 8; ++row) {
      EXPECT_EQ(shared.Sample(rows[row], params[row], nullptr, position),
                alone[row * 50 + position]);
    }
  }
}

TEST(Sampler, DrawsDifferentlyWithAnotherSeedOrPosition) {
  const std::vector<float> logits(1000, 0.0f);
  Sampler sampler(1000);
  SamplingParams first;
  first.seed = 1;
  SamplingParams second;
  second.seed = 2;
  int same_seed = 0;
  int same_position = 0;
  for (int position = 0; position < 100; ++position) {
    const TokenId token = sampler.Sample(logits, first, nullptr, position);
    same_seed += token == sampler.Sample(logits, second, nullptr, position);
    same_position += token == sampler.Sample(logits, first, nullptr, position + 1);
  }
  EXPECT_LT(same_seed, 5);
  EXPECT_LT(same_position, 5);
}

TEST(ValidateSamplingParams, NamesTheFieldThatIsOutOfRange) {
  EXPECT_TRUE(ValidateSamplingParams({}, 10).ok());
  using Params = SamplingParams;
  const struct {
    std::string field;
    void (*set)(Params&);
  } cases[] = {
      {"temperature", [](Params& p) { p.temperature = -1; }},
      {"temperature", [](Params& p) { p.temperature = kNan; }},
      {"temperature", [](Params& p) { p.temperature = kInf; }},
      {"top_k", [](Params& p) { p.top_k = -1; }},
      {"top_p", [](Params& p) { p.top_p = 1.5f; }},
      {"top_p", [](Params& p) { p.top_p = kNan; }},
      {"min_p", [](Params& p) { p.min_p = -0.1f; }},
      {"frequency_penalty", [](Params& p) { p.frequency_penalty = 2.5f; }},
      {"presence_penalty", [](Params& p) { p.presence_penalty = -3; }},
      {"repetition_penalty", [](Params& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", [](Params& p) { p.repetition_penalty = kNan; }},
      {"repetition_penalty", [](Params& p) { p.repetition_penalty = kInf; }},
      {"logit_bias",
       [](Params& p) {
         p.logit_bias = {{TokenId(10), 1}};
       }},
      {"logit_bias",
       [](Params& p) {
         p.logit_bias = {{kNoToken, 1}};
       }},
      {"logit_bias",
       [](Params& p) {
         p.logit_bias = {{TokenId(3), 101}};
       }},
      {"logit_bias",
       [](Params& p) {
         p.logit_bias.assign(1025, {TokenId(1), 0});
       }},
  };
  for (const auto& c : cases) {
    Params params;
    c.set(params);
    const Status status = ValidateSamplingParams(params, 10);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.field;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(c.field));
  }
}

}  // namespace
}  // namespace remontoir
