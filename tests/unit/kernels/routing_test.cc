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

Routed Route(const std::vector<float>& logits, int used, bool renormalise) {
  Routed routed;
  routed.chosen.resize(static_cast<size_t>(used));
  routed.weights.resize(static_cast<size_t>(used));
  RouteRow(logits.data(), static_cast<int>(logits.size()), used, renormalise, routed.chosen.data(),
           routed.weights.data());
  return routed;
}

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

}  // namespace
}  // namespace remontoir
