// Costs of rounds: what they predict, how they invert, and how they are learnt.
#include "scheduler/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace remontoir {
namespace {

RoundWork Work(int64_t prompt, int64_t computed, int64_t rows, int64_t keys) {
  RoundWork work;
  if (prompt > 0) work.AddPrefill(prompt, computed);
  for (int64_t i = 0; i < rows; ++i) work.AddDecode(keys);
  return work;
}

TEST(CostModel, SumsItsTerms) {
  const CostModel costs = {1000, 10, 100, 0.5, 0.25};
  EXPECT_DOUBLE_EQ(costs.PredictUs({}), 1000);
  EXPECT_DOUBLE_EQ(costs.PredictUs(Work(8, 100, 2, 50)),
                   1000 + 80 + 200 + 0.5 * 100 + 0.25 * 8 * 104);
  EXPECT_DOUBLE_EQ(costs.PrefillUs(8, 100), 80 + 0.25 * 8 * 104);
  RoundWork sealing;
  sealing.seals = 3;
  EXPECT_DOUBLE_EQ(costs.PredictUs(sealing), 1000 + 3 * costs.seal_us);
}

TEST(CostModel, FindsTheSealsThatFit) {
  CostModel costs;
  for (const double seal_us : {0.7, 700.0, 3000.0}) {
    costs.seal_us = seal_us;
    for (const int64_t seals : {1, 2, 30, 930}) {
      EXPECT_EQ(costs.SealsWithin(costs.SealUs(seals)), seals);
      EXPECT_EQ(costs.SealsWithin(costs.SealUs(seals) - seal_us / 2), seals - 1);
    }
  }
  EXPECT_EQ(costs.SealsWithin(0), 0);
  EXPECT_EQ(costs.SealsWithin(-1), 0);
  costs.seal_us = 0;
  EXPECT_EQ(costs.SealsWithin(1e9), int64_t{1} << 30);
}

TEST(CostModel, FindsTheTokensThatFit) {
  const CostModel costs;
  for (const int64_t computed : {0, 100, 30'000}) {
    for (const int64_t tokens : {1, 8, 100, 5000}) {
      const double us = costs.PrefillUs(tokens, computed);
      EXPECT_EQ(costs.TokensWithin(us, computed), tokens);
      EXPECT_EQ(costs.TokensWithin(us - costs.prefill_token_us / 2, computed), tokens - 1);
    }
  }
  EXPECT_EQ(costs.TokensWithin(0, 0), 0);
  EXPECT_EQ(costs.TokensWithin(-5, 0), 0);
  EXPECT_EQ((CostModel{0, 0, 0, 0, 0}).TokensWithin(1, 0), int64_t{1} << 30);
}

// Mixed rounds by seed, as a server has them.
RoundWork RandomWork(const CounterRandom& random, uint64_t i) {
  const bool prefill = random.Bits(4 * i) % 3 != 0;
  const auto rows = static_cast<int64_t>(random.Bits(4 * i + 1) % 9);
  return Work(prefill ? 8 + static_cast<int64_t>(random.Bits(4 * i + 2) % 300) : 0,
              static_cast<int64_t>(random.Bits(4 * i + 3) % 4000), prefill ? rows : rows + 1,
              static_cast<int64_t>(random.Bits(4 * i + 3) % 3000));
}

TEST(CostFit, LearnsTheCostsOfNoisyRounds) {
  const CostModel truth = {3000, 400, 900, 0.8, 0.1};
  CostFit fit{CostModel{}};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const CounterRandom random(seed, 0);
    for (uint64_t i = 0; i < 600; ++i) {
      const RoundWork work = RandomWork(random, i);
      const double noise = 0.9 + 0.2 * random.Uniform(100'000 + i);
      fit.Add(work, static_cast<int64_t>(truth.PredictUs(work) * noise));
    }
    for (uint64_t i = 1000; i < 1100; ++i) {
      const RoundWork work = RandomWork(random, i);
      EXPECT_NEAR(fit.model().PredictUs(work) / truth.PredictUs(work), 1, 0.1) << seed << ' ' << i;
    }
  }
  EXPECT_EQ(fit.rounds(), 1800);
}

TEST(CostFit, LearnsWhatSealsTake) {
  const CostModel truth = {3000, 400, 900, 0.8, 0.1, 1900};
  CostFit fit{CostModel{}};
  const CounterRandom random(8, 0);
  for (uint64_t i = 0; i < 400; ++i) {
    RoundWork work = RandomWork(random, i);
    if (i % 4 == 0) work.seals = 1 + static_cast<int64_t>(random.Bits(50'000 + i) % 60);
    const double noise = 0.9 + 0.2 * random.Uniform(100'000 + i);
    fit.Add(work, static_cast<int64_t>(truth.PredictUs(work) * noise));
  }
  EXPECT_NEAR(fit.model().seal_us / truth.seal_us, 1, 0.1);
}

TEST(CostFit, KeepsWhatTheLastRoundsDoNotShow) {
  const CostModel truth = {3000, 400, 900, 0.8, 0.1};
  CostFit fit(truth);
  for (int i = 0; i < 20'000; ++i) {
    const RoundWork work = Work(0, 0, 1 + i % 8, 100 + i % 50);
    fit.Add(work, static_cast<int64_t>(truth.PredictUs(work)));
  }
  EXPECT_NEAR(fit.model().prefill_token_us, 400, 1);
  EXPECT_NEAR(fit.model().prefill_key_us, 0.1, 0.001);
}

TEST(CostFit, BelievesNoAccident) {
  const CostModel truth = {3000, 400, 900, 0.8, 0.1};
  CostFit fit(truth);
  const CounterRandom random(5, 0);
  for (uint64_t i = 0; i < 300; ++i) {
    const RoundWork work = RandomWork(random, i);
    const bool stalled = i > 100 && i % 50 == 0;
    fit.Add(work, static_cast<int64_t>(truth.PredictUs(work)) + (stalled ? 5'000'000 : 0));
  }
  const RoundWork work = Work(200, 0, 2, 500);
  EXPECT_NEAR(fit.model().PredictUs(work) / truth.PredictUs(work), 1, 0.05);
}

TEST(CostFit, FollowsAMachineThatBecomesSlower) {
  const CostModel truth = {3000, 400, 900, 0.8, 0.1};
  CostFit fit(truth);
  const CounterRandom random(6, 0);
  for (uint64_t i = 0; i < 500; ++i) {
    const RoundWork work = RandomWork(random, i);
    fit.Add(work, static_cast<int64_t>(3 * truth.PredictUs(work)));
  }
  const RoundWork work = Work(200, 0, 2, 500);
  EXPECT_NEAR(fit.model().PredictUs(work) / truth.PredictUs(work), 3, 0.1);
}

TEST(CostFit, NeverMakesPrefillFree) {
  CostFit fit{CostModel{}};
  for (int i = 0; i < 200; ++i) fit.Add(Work(100, 0, 2, 10), 0);
  EXPECT_GT(fit.model().prefill_token_us, 0);
  EXPECT_GE(fit.model().round_us, 0);
  EXPECT_TRUE(std::isfinite(fit.model().PredictUs(Work(100, 0, 2, 10))));
}

}  // namespace
}  // namespace remontoir
