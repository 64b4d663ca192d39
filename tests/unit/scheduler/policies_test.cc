// What sets the policies apart: gates, order, priorities, company, and who decodes when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "scheduler/scheduler.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kReads = 1000;

SequenceState Prompt(int32_t tokens, int64_t arrived_us = 0, int32_t computed = 0) {
  return {{arrived_us}, {tokens, tokens, computed, tokens - 1, kReads}, {.pages = 1}};
}
SequenceState Decoder() { return {{0}, {10, 15, 14, 9, kReads}, {.pages = 1}}; }

SequenceState Alone(SequenceState state) {
  state.alone = true;
  return state;
}
SequenceState WithPriority(SequenceState state, int32_t priority) {
  state.priority = priority;
  return state;
}

// A scheduler's world with room for all, 1 ms a token, 10 ms a round, 1 ms a row.
class World {
 public:
  explicit World(SchedulingPolicy policy) {
    state_.options.policy = policy;
    state_.slots_free = 8;
    state_.pages_free = 1000;
    state_.bounds = {512, 128};
    state_.costs = {10'000, 1000, 1000, 0, 0};
  }

  const Round& Next(int64_t now_us, const std::vector<SequenceState>& running,
                    const std::vector<SequenceState>& waiting) {
    state_.running = running;
    state_.waiting = waiting;
    NextRound({now_us}, state_, round_);
    state_.memory = round_.after;
    return round_;
  }

  SchedulerState& state() { return state_; }

 private:
  SchedulerState state_;
  Round round_{16, 64};
};

std::vector<std::vector<int32_t>> Shares(const Round& round) {
  std::vector<std::vector<int32_t>> shares;
  for (const RoundShare& share : round.shares) shares.push_back({share.sequence, share.tokens});
  return shares;
}

using Share = std::vector<int32_t>;

TEST(Adaptive, HoldsNobody) {
  World world(SchedulingPolicy::kAdaptive);
  const Round& round = world.Next(0, {}, {Prompt(20)});
  EXPECT_THAT(round.admitted, ElementsAre(0));
  EXPECT_THAT(Shares(round), ElementsAre(Share{0, 20}));
  EXPECT_FALSE(round.wake.has_value());
}

TEST(Adaptive, ComputesTheShortestPromptFirst) {
  World world(SchedulingPolicy::kAdaptive);
  const Round& round = world.Next(0, {Prompt(3000, 0, 1000)}, {Prompt(40), Prompt(16)});
  EXPECT_THAT(round.admitted, ElementsAre(0, 1));
  ASSERT_GE(round.shares.size(), 2U);
  EXPECT_EQ(round.shares[0].sequence, 2);
  EXPECT_EQ(round.shares[1].sequence, 1);
}

TEST(Adaptive, AgesALongPromptPastNewShortOnes) {
  World world(SchedulingPolicy::kAdaptive);
  world.state().slots_free = 1;
  const std::vector<SequenceState> waiting = {Prompt(1000, 0), Prompt(100, 3'500'000)};
  EXPECT_THAT(world.Next(3'500'000, {}, waiting).admitted, ElementsAre(1));
  const std::vector<SequenceState> later = {Prompt(1000, 0), Prompt(100, 3'700'000)};
  EXPECT_THAT(world.Next(3'700'000, {}, later).admitted, ElementsAre(0));
}

TEST(Adaptive, CutsTheBatchSoThatAShortPromptDoesNotWaitForALongOne) {
  World world(SchedulingPolicy::kAdaptive);
  const Round& round = world.Next(0, {}, {Prompt(24), Prompt(600)});
  ASSERT_FALSE(round.shares.empty());
  EXPECT_EQ(round.shares[0].tokens, 24);
  // The long one gets about a round's overhead behind it, not the rest of the window.
  const int32_t behind = round.shares.size() > 1 ? round.shares[1].tokens : 0;
  EXPECT_LE(behind, 16);
}

TEST(Adaptive, KeepsToArrivalWhenAsked) {
  World world(SchedulingPolicy::kAdaptive);
  world.state().options.order = SchedulingOrder::kArrival;
  const Round& round = world.Next(0, {}, {Prompt(80), Prompt(16)});
  EXPECT_EQ(round.shares[0].sequence, 0);
}

TEST(Fixed, HoldsRequestsForTheGate) {
  World world(SchedulingPolicy::kFixed);
  const Round& early = world.Next(199'999, {}, {Prompt(20, 0), Prompt(20, 100'000)});
  EXPECT_THAT(early.admitted, IsEmpty());
  EXPECT_EQ(early.wake->us, kGateUs);
  const Round& opened = world.Next(200'000, {}, {Prompt(20, 0), Prompt(20, 100'000)});
  EXPECT_THAT(opened.admitted, ElementsAre(0, 1));
}

TEST(Fixed, StartsTheNextGateWithTheFirstWhoCameAfterIt) {
  World world(SchedulingPolicy::kFixed);
  world.Next(200'000, {}, {Prompt(20, 0)});
  const Round& held = world.Next(250'000, {Prompt(20, 0)}, {Prompt(20, 210'000)});
  EXPECT_THAT(held.admitted, IsEmpty());
  EXPECT_EQ(held.wake->us, 210'000 + kGateUs);
  EXPECT_FALSE(held.shares.empty()) << "who passed the gate goes on";
}

TEST(Fixed, OpensTheGateForEight) {
  World world(SchedulingPolicy::kFixed);
  EXPECT_THAT(world.Next(10, {}, std::vector<SequenceState>(7, Prompt(20, 10))).admitted,
              IsEmpty());
  EXPECT_EQ(world.Next(10, {}, std::vector<SequenceState>(8, Prompt(20, 10))).admitted.size(), 8U);
}

TEST(Fixed, LetsThoseWhomTheGateReleasedJoinWhenSlotsComeFree) {
  World world(SchedulingPolicy::kFixed);
  world.state().slots_free = 1;
  EXPECT_THAT(world.Next(200'000, {}, {Prompt(20, 0), Prompt(20, 50)}).admitted, ElementsAre(0));
  EXPECT_THAT(world.Next(201'000, {}, {Prompt(20, 50)}).admitted, ElementsAre(0));
}

TEST(Legacy, RunsABatchToItsEndBeforeTheNextJoins) {
  World world(SchedulingPolicy::kLegacy);
  const Round& busy = world.Next(500'000, {Decoder()}, {Prompt(20, 0)});
  EXPECT_THAT(busy.admitted, IsEmpty());
  EXPECT_THAT(Shares(busy), ElementsAre(Share{0, 1}));
  EXPECT_THAT(world.Next(500'001, {}, {Prompt(20, 0)}).admitted, ElementsAre(0));
}

TEST(Legacy, DecodesOnceNoPromptIsLeft) {
  World world(SchedulingPolicy::kLegacy);
  EXPECT_THAT(Shares(world.Next(0, {Decoder(), Prompt(600, 0, 512)}, {})),
              ElementsAre(Share{1, 88}));
}

TEST(Legacy, TakesEightAtMostIntoABatch) {
  World world(SchedulingPolicy::kLegacy);
  world.state().slots_free = 16;
  EXPECT_EQ(world.Next(10, {}, std::vector<SequenceState>(12, Prompt(20, 10))).admitted.size(), 8U);
}

TEST(EveryPolicy, ReportsItsWindow) {
  const auto reported = [](SchedulingPolicy policy) {
    World world(policy);
    const Round& round = world.Next(1'000'000, {Decoder()}, {Prompt(20, 0)});
    return ReportedWindowMs(world.state().options, round);
  };
  EXPECT_EQ(reported(SchedulingPolicy::kFixed), 200);
  EXPECT_EQ(reported(SchedulingPolicy::kLegacy), 200);
  EXPECT_EQ(reported(SchedulingPolicy::kImmediate), 120);
  EXPECT_GE(reported(SchedulingPolicy::kAdaptive), 50);
  EXPECT_LE(reported(SchedulingPolicy::kAdaptive), 120);
}

TEST(Priority, GoesBeforeLengthAndArrival) {
  for (const SchedulingPolicy policy :
       {SchedulingPolicy::kAdaptive, SchedulingPolicy::kImmediate}) {
    World world(policy);
    world.state().slots_free = 1;
    const Round& round =
        world.Next(100, {}, {Prompt(8, 0), WithPriority(Prompt(400, 50), -1), Prompt(8, 60)});
    EXPECT_THAT(round.admitted, ElementsAre(1));
  }
}

TEST(Priority, IsMadeUpForByTheStarvationBound) {
  World world(SchedulingPolicy::kImmediate);
  world.state().slots_free = 1;
  const auto waiting = [](int64_t now) {
    return std::vector<SequenceState>{WithPriority(Prompt(8, 0), kPriorityMax),
                                      WithPriority(Prompt(8, now), kPriorityMin)};
  };
  EXPECT_THAT(world.Next(kStarvationUs - 1, {}, waiting(kStarvationUs - 1)).admitted,
              ElementsAre(1));
  EXPECT_THAT(world.Next(kStarvationUs, {}, waiting(kStarvationUs)).admitted, ElementsAre(0));
}

TEST(Alone, AlternatesWithTheRoundsThatOthersShare) {
  World world(SchedulingPolicy::kAdaptive);
  const std::vector<SequenceState> running = {Decoder(), Alone(Decoder()), Decoder()};
  EXPECT_THAT(Shares(world.Next(0, running, {})), ElementsAre(Share{1, 1}));
  EXPECT_THAT(Shares(world.Next(1, running, {})), ElementsAre(Share{0, 1}, Share{2, 1}));
  EXPECT_THAT(Shares(world.Next(2, running, {})), ElementsAre(Share{1, 1}));
}

TEST(Alone, RunsEveryRoundWhenNobodyElseHasAnythingToCompute) {
  World world(SchedulingPolicy::kAdaptive);
  const std::vector<SequenceState> running = {Alone(Decoder())};
  EXPECT_THAT(Shares(world.Next(0, running, {})), ElementsAre(Share{0, 1}));
  EXPECT_THAT(Shares(world.Next(1, running, {})), ElementsAre(Share{0, 1}));
}

TEST(Alone, JoinsOneAtATime) {
  World world(SchedulingPolicy::kAdaptive);
  EXPECT_THAT(world.Next(0, {}, {Alone(Prompt(9)), Alone(Prompt(9)), Prompt(9)}).admitted,
              ElementsAre(0, 2));
  EXPECT_THAT(world.Next(0, {Alone(Decoder())}, {Alone(Prompt(9))}).admitted, IsEmpty());
}

}  // namespace
}  // namespace remontoir
