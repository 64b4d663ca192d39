// Facts about the choice of experts.
#include "kernels/routing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace remontoir {
namespace {

struct Routed {
  std::vector<int32_t> chosen;
  std::vector<float> weights;
};

Routed Route(const std::vector<float>& logits, RoutingRule rule) {
  Routed routed;
  rule.experts = static_cast<int>(logits.size());
  routed.chosen.resize(static_cast<size_t>(rule.used));
  routed.weights.resize(static_cast<size_t>(rule.used));
  std::vector<float> scores = logits;
  RouteRow(rule, scores.data(), routed.chosen.data(), routed.weights.data());
  return routed;
}

Routed Route(const std::vector<float>& logits, int used, bool renormalise) {
  return Route(logits, {.used = used, .renormalise = renormalise});
}

double ExactSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(RouteRow, ChoosesTheBestInOrder) {
  EXPECT_EQ(Route({0.5F, 2, -1, 3, 1}, 3, true).chosen, (std::vector<int32_t>{3, 1, 4}));
  EXPECT_EQ(Route({1, 2, 3}, 3, true).chosen, (std::vector<int32_t>{2, 1, 0}));
}

TEST(RouteRow, PrefersTheLowerNumberInATie) {
  EXPECT_EQ(Route({1, 1, 1, 1}, 2, true).chosen, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Route({0, 5, 7, 5}, 3, true).chosen, (std::vector<int32_t>{2, 1, 3}));
}

TEST(RouteRow, WeighsBySoftmaxOverAllExperts) {
  const std::vector<float> logits = {0.5F, 2, -1, 3};
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const Routed routed = Route(logits, 2, false);
  EXPECT_NEAR(routed.weights[0], std::exp(3) / total, 1e-6);
  EXPECT_NEAR(routed.weights[1], std::exp(2) / total, 1e-6);
}

TEST(RouteRow, RenormalisesTheChosenToOne) {
  const Routed routed = Route({0.5F, 2, -1, 3}, 2, true);
  EXPECT_NEAR(routed.weights[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(routed.weights[0] + routed.weights[1], 1, 1e-6);
}

TEST(Sigmoid, IsAccurateAndEndsAtZeroAndOne) {
  for (const float x : {-90.0F, -20.0F, -1.5F, 0.0F, 0.25F, 3.0F, 30.0F}) {
    const double exact = 1 / (1 + std::exp(-static_cast<double>(x)));
    EXPECT_NEAR(Sigmoid(x), exact, 3e-7 * exact + 1e-38) << x;
  }
  EXPECT_EQ(Sigmoid(-INFINITY), 0);
  EXPECT_EQ(Sigmoid(INFINITY), 1);
  EXPECT_TRUE(std::isnan(Sigmoid(NAN)));
}

TEST(RouteRow, ChoosesDistinctExpertsWhateverTheLogits) {
  const Routed routed = Route({NAN, NAN, NAN}, 2, true);
  EXPECT_EQ(routed.chosen, (std::vector<int32_t>{0, 1}));
}

TEST(RouteRow, CapsTheLogitsFirst) {
  const std::vector<float> logits = {10, -20, 14, 3};
  double total = 0;
  for (const float logit : logits) total += std::exp(8 * std::tanh(logit / 8.0));
  const Routed routed = Route(logits, {.used = 2, .renormalise = false, .soft_cap = 8});
  EXPECT_EQ(routed.chosen, (std::vector<int32_t>{2, 0}));
  EXPECT_NEAR(routed.weights[0], std::exp(8 * std::tanh(14 / 8.0)) / total, 1e-6);
  EXPECT_NEAR(routed.weights[1], std::exp(8 * std::tanh(10 / 8.0)) / total, 1e-6);
}

TEST(RouteRow, ScalesTheWeightsLast) {
  const std::vector<float> logits = {0.5F, 2, -1, 3};
  const Routed plain = Route(logits, 2, true);
  const Routed scaled = Route(logits, {.used = 2, .renormalise = true, .scale = 2.5F});
  EXPECT_EQ(scaled.chosen, plain.chosen);
  EXPECT_EQ(scaled.weights[0], plain.weights[0] * 2.5F);
  EXPECT_EQ(scaled.weights[1], plain.weights[1] * 2.5F);
}

TEST(RouteRow, WeighsEachExpertByItsOwnSigmoid) {
  const std::vector<float> logits = {0.5F, 2, -1, -3};
  const Routed routed =
      Route(logits, {.used = 2, .renormalise = false, .score = RouterScore::kSigmoid});
  EXPECT_EQ(routed.chosen, (std::vector<int32_t>{1, 0}));
  EXPECT_NEAR(routed.weights[0], ExactSigmoid(2), 1e-6);
  EXPECT_NEAR(routed.weights[1], ExactSigmoid(0.5), 1e-6);
  const Routed sum =
      Route(logits, {.used = 2, .renormalise = true, .score = RouterScore::kSigmoid});
  EXPECT_NEAR(sum.weights[0], ExactSigmoid(2) / (ExactSigmoid(2) + ExactSigmoid(0.5)), 1e-6);
}

TEST(RouteRow, BiasDecidesWhoIsChosenButWeighsNothing) {
  const std::vector<float> logits = {0.5F, 2, -1, -3};
  const std::vector<float> bias = {0, -1, 0.5F, 0};
  const Routed routed =
      Route(logits,
            {.used = 2, .renormalise = false, .score = RouterScore::kSigmoid, .bias = bias.data()});
  EXPECT_EQ(routed.chosen, (std::vector<int32_t>{2, 0}));
  EXPECT_NEAR(routed.weights[0], ExactSigmoid(-1), 1e-6);
  EXPECT_NEAR(routed.weights[1], ExactSigmoid(0.5), 1e-6);
}

TEST(RouteRow, SigmoidsThatVanishWeighNothing) {
  const Routed routed =
      Route({-200, -200, -200}, {.used = 2, .renormalise = true, .score = RouterScore::kSigmoid});
  EXPECT_EQ(routed.weights, (std::vector<float>{0, 0}));
}

// Three groups of three: the first has the best expert, the second the best pair.
const std::vector<float> kGroupedLogits = {3, -5, -5, 2, 1.8F, -5, 1, 0.9F, 0.8F};

TEST(RouteRow, LimitsSoftmaxToTheGroupsWithTheBestExperts) {
  const RoutingRule rule = {.used = 3, .groups = 3, .groups_used = 1};
  EXPECT_EQ(Route(kGroupedLogits, rule).chosen, (std::vector<int32_t>{0, 1, 2}));
}

TEST(RouteRow, LimitsSigmoidToTheGroupsWithTheBestPairs) {
  RoutingRule rule = {.used = 3, .score = RouterScore::kSigmoid, .groups = 3, .groups_used = 1};
  EXPECT_EQ(Route(kGroupedLogits, rule).chosen, (std::vector<int32_t>{3, 4, 5}));
  rule.groups_used = 2;
  EXPECT_EQ(Route(kGroupedLogits, rule).chosen, (std::vector<int32_t>{3, 4, 6}));
}

TEST(RouteRow, BiasCountsForItsGroup) {
  const std::vector<float> bias = {0, 0, 0, -1, 0, 0, 0, 0, 0};
  const Routed routed = Route(kGroupedLogits, {.used = 2,
                                               .score = RouterScore::kSigmoid,
                                               .groups = 3,
                                               .groups_used = 1,
                                               .bias = bias.data()});
  EXPECT_EQ(routed.chosen, (std::vector<int32_t>{6, 7}));
}

TEST(RouteRow, OpensTheLowerGroupInATie) {
  const RoutingRule rule = {.used = 2, .groups = 3, .groups_used = 1};
  EXPECT_EQ(Route({1, 1, 1, 1, 1, 1}, rule).chosen, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Route({NAN, NAN, NAN, NAN, NAN, NAN}, rule).chosen, (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace remontoir
