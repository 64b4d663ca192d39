// Predictions of first tokens: what a roll-out sees coming.
#include "scheduler/rollout.h"

#include <gtest/gtest.h>

#include <vector>

namespace remontoir {
namespace {

constexpr int32_t kReads = 1000;

SequenceState Prompt(int32_t tokens, int64_t arrived_us = 0, int32_t answer = 10) {
  return {{arrived_us}, {tokens, tokens, 0, tokens - 1, kReads}, {.pages = 1}, 0, false, answer};
}
SequenceState Decoder(int32_t answer) {
  return {{0}, {10, 11, 10, 9, kReads}, {.pages = 1}, 0, false, answer};
}

// 1 ms a token, 10 ms a round, 1 ms a row; two slots.
RolloutStart Start() {
  RolloutStart start;
  start.state.slots_free = 2;
  start.state.pages_free = 100;
  start.state.bounds = {512, 128};
  start.state.costs = {10'000, 1000, 1000, 0, 0};
  return start;
}

TEST(Rollout, IsThePrefillAloneOnAnIdleEngine) {
  Rollout rollout(8, 8);
  const RolloutEnd end = rollout.Run({5'000}, Start(), Prompt(50, 5'000));
  EXPECT_EQ(end.first_token_us, 60'000);
  EXPECT_EQ(end.admission_us, 0);
}

TEST(Rollout, WaitsForTheRoundUnderWay) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  const std::vector<SequenceState> running = {Decoder(100)};
  start.state.running = running;
  start.state.slots_free = 1;
  start.shares = {{0, 1}};
  start.ends = {9'000};
  // 4 ms until it ends, then a round with one row.
  EXPECT_EQ(rollout.Run({5'000}, start, Prompt(50, 5'000)).first_token_us, 4'000 + 61'000);
}

TEST(Rollout, WaitsForASlotUntilAnAnswerEnds) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  const std::vector<SequenceState> running = {Decoder(30), Decoder(40)};
  start.state.running = running;
  start.state.slots_free = 0;
  const RolloutEnd end = rollout.Run({0}, start, Prompt(50));
  EXPECT_EQ(end.admission_us, 30 * 12'000);
  EXPECT_EQ(end.first_token_us, 30 * 12'000 + 61'000);
}

TEST(Rollout, WaitsForRoomThatComesBack) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  std::vector<SequenceState> running = {Decoder(20)};
  running[0].room.pages = 3;
  start.state.running = running;
  start.state.slots_free = 1;
  start.state.pages_free = 1;
  SequenceState newcomer = Prompt(50);
  newcomer.room.pages = 4;
  EXPECT_EQ(rollout.Run({0}, start, newcomer).first_token_us, 20 * 11'000 + 60'000);
}

TEST(Rollout, KeepsToTheOrderOfTheLine) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  const std::vector<SequenceState> waiting = {Prompt(100, 0, 1)};
  start.state.waiting = waiting;
  start.state.slots_free = 1;
  EXPECT_EQ(rollout.Run({0}, start, Prompt(50, 0)).first_token_us, 110'000 + 60'000);
  SequenceState first = Prompt(50, 0);
  first.priority = -1;
  EXPECT_EQ(rollout.Run({0}, start, first).first_token_us, 60'000);
}

TEST(Rollout, CountsTheGate) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  start.state.options.policy = SchedulingPolicy::kFixed;
  EXPECT_EQ(rollout.Run({0}, start, Prompt(50)).first_token_us, kGateUs + 60'000);
}

TEST(Rollout, EndsWhenNobodyCanMove) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  start.state.pages_free = 0;
  EXPECT_EQ(rollout.Run({0}, start, Prompt(50)).first_token_us, Rollout::kUsMax);
}

TEST(Rollout, EstimatesTheRestBehindItsBound) {
  Rollout rollout(8, 4000);
  RolloutStart start = Start();
  start.state.slots_free = 1;
  const std::vector<SequenceState> waiting(3000, Prompt(100, 0, 1));
  start.state.waiting = waiting;
  const double us = static_cast<double>(rollout.Run({0}, start, Prompt(100)).first_token_us);
  EXPECT_NEAR(us, 3001 * 110'000.0, 3001 * 11'000.0);
}

TEST(RetryAfter, IsStretchedByTheLoad) {
  EXPECT_EQ(RetryAfterUs(300'000, 0), 300'000);
  EXPECT_GT(RetryAfterUs(300'000, 0.5), 330'000);
  EXPECT_LE(RetryAfterUs(300'000, 1e9), 750'000);
  EXPECT_EQ(RetryAfterUs(Rollout::kUsMax, 3), Rollout::kUsMax);
}

TEST(WhenWithin, IsWhenARetryWouldBeLetIn) {
  Rollout rollout(8, 8);
  RolloutStart start = Start();
  const std::vector<SequenceState> running = {Decoder(30), Decoder(40)};
  start.state.running = running;
  start.state.slots_free = 0;
  // The first answer ends after 360 ms, and the prompt takes 61 ms then.
  const int64_t us = rollout.WhenWithin({0}, start, Prompt(50), 100'000);
  EXPECT_NEAR(static_cast<double>(us), 360'000 + 61'000 - 100'000, 20'000);
  EXPECT_EQ(rollout.WhenWithin({0}, start, Prompt(50), 500'000), 0);
  EXPECT_EQ(rollout.WhenWithin({0}, start, Prompt(50), 50'000), Rollout::kUsMax) << "not alone";
}

}  // namespace
}  // namespace remontoir
