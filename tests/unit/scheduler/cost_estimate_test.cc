// The estimate finds the costs of machines unlike its first guess.
#include "scheduler/cost_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace remontoir {
namespace {

TEST(CostEstimate, LearnsTheCostsOfItsMachine) {
  const struct {
    double round_us;
    double prefill_token_us;
    double decode_row_us;
  } machines[] = {{6300, 1000, 1710}, {14000, 50, 100}, {30000, 45000, 60000}, {200, 20, 40}};
  const CounterRandom random(3, 0);
  uint64_t n = 0;
  for (const auto& machine : machines) {
    CostEstimate estimate;
    const auto cost = [&](int32_t prefill, int32_t decode) {
      return machine.round_us + machine.prefill_token_us * prefill + machine.decode_row_us * decode;
    };
    for (int round = 0; round < 400; ++round) {
      const uint64_t bits = random.Bits(n++);
      const auto prefill = static_cast<int32_t>(bits % 2 * (bits / 2 % 200));
      const auto decode = static_cast<int32_t>(bits >> 32 & 7);
      estimate.Commit(prefill, decode, std::llround(cost(prefill, decode)));
    }
    for (const int32_t prefill : {40, 100, 200}) {
      for (const int32_t decode : {0, 4, 7}) {
        EXPECT_NEAR(estimate.PredictUs(prefill, decode) / cost(prefill, decode), 1, 0.1)
            << prefill << " and " << decode << " at " << machine.prefill_token_us;
      }
    }
  }
}

TEST(CostEstimate, FitsTheWindowAfterAFewRoundsOfOneKind) {
  for (const double token_us : {5.0, 400.0, 1000.0, 50'000.0}) {
    CostEstimate estimate;
    int64_t tokens = 0;
    for (int round = 0; round < 12; ++round) {
      tokens = std::clamp<int64_t>(estimate.PrefillTokensWithin(120'000, 2), 8, 512);
      estimate.Commit(static_cast<int32_t>(tokens), 2,
                      std::llround(3000 + 2000 + token_us * static_cast<double>(tokens)));
    }
    const double fits = std::clamp((120'000 - 5000) / token_us, 8.0, 512.0);
    EXPECT_NEAR(static_cast<double>(tokens) / fits, 1, 0.25) << token_us;
  }
}

TEST(CostEstimate, GivesNoTokensWhenDecodersFillTheWindow) {
  const CostEstimate estimate = {.round_us = 0, .prefill_token_us = 1000, .decode_row_us = 50'000};
  EXPECT_EQ(estimate.PrefillTokensWithin(120'000, 0), 120);
  EXPECT_EQ(estimate.PrefillTokensWithin(120'000, 2), 20);
  EXPECT_EQ(estimate.PrefillTokensWithin(120'000, 3), 0);
}

TEST(CostEstimate, SurvivesAClockThatStandsStill) {
  CostEstimate estimate;
  for (int round = 0; round < 1000; ++round) estimate.Commit(100, 8, 0);
  EXPECT_GE(estimate.PrefillTokensWithin(120'000, 8), 512);
  EXPECT_LE(estimate.PrefillTokensWithin(120'000, 8), int64_t{1} << 30);
}

}  // namespace
}  // namespace remontoir
