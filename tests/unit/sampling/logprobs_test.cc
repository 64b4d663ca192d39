// Log-probabilities against double precision; lists of the best; what odd logits count as.
#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "sampling/exp.h"

namespace remontoir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomLogits(size_t size, uint64_t seed) {
  std::vector<float> logits(size);
  const CounterRandom random(seed, 1);
  for (size_t i = 0; i < size; ++i) {
    logits[i] = static_cast<float>(random.Uniform(i) * 30 - 20);
  }
  return logits;
}

TEST(ExpOfNonPositive, StaysWithinTwoUnitsInTheLastPlace) {
  for (int i = 0; i <= 870'000; ++i) {
    const float x = static_cast<float>(i) * -1e-4f;
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(ExpOfNonPositive(x), exact, exact * 0x1p-22) << x;
  }
  EXPECT_EQ(ExpOfNonPositive(0), 1);
  EXPECT_EQ(ExpOfNonPositive(-87.001f), 0);
  EXPECT_EQ(ExpOfNonPositive(-kInf), 0);
}

TEST(LogSumExp, AgreesWithDoublePrecision) {
  for (const size_t size : {1, 2, 7, 8, 9, 1000, 49'152}) {
    const std::vector<float> logits = RandomLogits(size, size);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(LogSumExp(logits), std::log(sum), 1e-6) << size;
  }
}

TEST(LogSumExp, SurvivesGreatAndSmallLogits) {
  const struct {
    std::vector<float> logits;
    double expected;
  } cases[] = {
      {{1000, 1000}, 1000 + std::log(2.0)},
      {{-1000, -1000}, -1000 + std::log(2.0)},
      {{5, kNan}, 5},
      {{5, -kInf}, 5},
      {{kInf, 3}, std::numeric_limits<float>::max()},
  };
  for (const auto& c : cases) {
    EXPECT_NEAR(LogSumExp(c.logits), c.expected, 1e-6 * std::abs(c.expected));
  }
}

TEST(LogprobAt, IsTheShareOfTheToken) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  const double log_sum = LogSumExp(logits);
  EXPECT_NEAR(LogprobAt(logits, log_sum, TokenId(0)), std::log(0.125), 1e-6);
  EXPECT_NEAR(LogprobAt(logits, log_sum, TokenId(2)), std::log(0.625), 1e-6);
}

TEST(LogprobAt, IsAlwaysAFiniteNumber) {
  const std::vector<float> rows[] = {{0, -kInf, kNan, -1e30f}, {kInf, 0, kInf}, {-kInf, kNan}};
  for (const auto& logits : rows) {
    const double log_sum = LogSumExp(logits);
    for (size_t i = 0; i < logits.size(); ++i) {
      const float logprob = LogprobAt(logits, log_sum, TokenId(static_cast<int32_t>(i)));
      EXPECT_TRUE(std::isfinite(logprob));
      EXPECT_GE(logprob, kLogprobMin);
      EXPECT_LE(logprob, 0);
    }
  }
}

TEST(TopTokens, EqualsASortedPrefix) {
  for (const size_t size : {1, 5, 20, 21, 3000}) {
    std::vector<float> logits = RandomLogits(size, 7 + size);
    for (float& logit : logits) logit = std::round(logit);  // many ties
    std::vector<int32_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    for (const size_t wanted : {0, 1, 3, 20}) {
      std::vector<TokenId> top(wanted);
      const int32_t count = TopTokens(logits, top);
      ASSERT_EQ(static_cast<size_t>(count), std::min(wanted, size));
      for (int32_t i = 0; i < count; ++i) EXPECT_EQ(Index(top[i]), order[i]);
    }
  }
}

}  // namespace
}  // namespace remontoir
