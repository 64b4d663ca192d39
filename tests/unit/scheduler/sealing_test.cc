// Sealing is work with a cost: it fits into windows, comes before the rows that need it, and is
// part of what is predicted.
#include "scheduler/sealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "scheduler/rollout.h"
#include "tensor/sealed_layout.h"

namespace remontoir {
namespace {

constexpr int32_t kReads = 1 << 20;
constexpr int32_t kLayers = 30;
constexpr SealingRules kRules = {kLayers, kEngageAtCustomSparse};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed, 9) {}
  int32_t Int(int32_t low, int32_t high) {
    return low +
           static_cast<int32_t>(random_.Bits(next_++) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  const CounterRandom random_;
  uint64_t next_ = 0;
};

CostModel RandomCosts(Dice& dice) {
  CostModel costs;
  costs.round_us = dice.Int(1, 10'000);
  costs.prefill_token_us = dice.Int(1, 2000);
  costs.decode_row_us = dice.Int(0, 3000);
  costs.decode_key_us = dice.Int(0, 2);
  costs.prefill_key_us = dice.Int(0, 4) / 8.0;
  costs.seal_us = dice.Int(0, 3000);
  return costs;
}

SequenceState Sparse(int32_t prompt, int32_t computed, int32_t seals_made) {
  SequenceState sequence;
  sequence.progress = {prompt, prompt, computed, prompt - 1, kReads, seals_made};
  sequence.sparse = true;
  return sequence;
}

SequenceState RandomPrompt(Dice& dice) {
  const int32_t prompt = dice.Int(1, 20'000);
  const int32_t computed = dice.Int(0, prompt - 1) / 8 * 8;
  return Sparse(prompt, computed, dice.Int(0, SealsDue(computed, kLayers)));
}

TEST(FitPrompt, SealsWhatIsOwedFirstAndTakesTheMostThatFits) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const CostModel costs = RandomCosts(dice);
    const SequenceState sequence = RandomPrompt(dice);
    const SequenceProgress& progress = sequence.progress;
    const PromptLimits limits = {dice.Int(1, 512), static_cast<double>(dice.Int(0, 150'000)),
                                 dice.Int(0, 1) == 1};
    const PromptShare share = FitPrompt(sequence, kRules, costs, limits);
    const int32_t late = SealsOwed(sequence, kRules, 0);
    EXPECT_LE(share.tokens, std::min(limits.tokens_max, progress.tokens_pending()));
    EXPECT_NEAR(share.us,
                costs.PrefillUs(share.tokens, progress.tokens_computed) + costs.SealUs(share.seals),
                1e-6);
    if (share.tokens > 0) {
      EXPECT_EQ(share.seals, SealsOwed(sequence, kRules, share.tokens));
      const int32_t end = progress.tokens_computed + share.tokens;
      EXPECT_TRUE(share.tokens == progress.tokens_pending() || end % kChunkGrain == 0);
    } else {
      EXPECT_LE(share.seals, late);
    }
    const bool least = share.tokens == 0 ? share.seals <= 1 : share.tokens <= kChunkGrain;
    EXPECT_TRUE(share.us <= limits.us_max + 1 || (limits.moves && least)) << share.us;
    if (limits.moves && limits.tokens_max >= kChunkGrain) {
      EXPECT_GT(share.tokens + share.seals, 0);
    }
    if (share.tokens == 0 && share.seals < late) {
      EXPECT_GT(costs.SealUs(share.seals + 1), limits.us_max) << "one more would have fitted";
    }
    const int32_t more = CutAtGrain(progress, share.tokens + kChunkGrain);
    if (share.seals >= late && more > share.tokens && more <= limits.tokens_max) {
      EXPECT_GT(ShareUs(sequence, kRules, costs, more), limits.us_max - costs.seal_us)
          << "a grain more would have fitted";
    }
  }
}

TEST(FitPrompt, OfAnExactSequenceKnowsNoSeals) {
  SequenceState sequence = Sparse(20'000, 16'000, 0);
  sequence.sparse = false;
  EXPECT_EQ(SealsOwed(sequence, kRules, 512), 0);
  const PromptShare share = FitPrompt(sequence, kRules, CostModel{}, {512, 1e9, false});
  EXPECT_EQ(share.tokens, 512);
  EXPECT_EQ(share.seals, 0);
}

// States of a server by seed: decoders, behind with their seals or not, and prompts.
struct RandomState {
  explicit RandomState(uint64_t seed) : dice(seed) {
    state.slots_free = dice.Int(0, 4);
    state.pages_free = 1000;
    state.segments_free = 1000;
    state.bounds = {512, 128};
    state.sealing = kRules;
    state.costs = RandomCosts(dice);
    state.options.policy =
        dice.Int(0, 1) == 0 ? SchedulingPolicy::kAdaptive : SchedulingPolicy::kImmediate;
    for (int32_t i = dice.Int(0, 6); i > 0; --i) {
      SequenceState sequence = RandomPrompt(dice);
      if (dice.Int(0, 1) == 0) {
        SequenceProgress& progress = sequence.progress;
        progress.tokens_computed = progress.prompt_tokens;
        progress.tokens_known = progress.prompt_tokens + 1;
        const int32_t due = SealsDue(progress.tokens_computed, kLayers);
        progress.seals_made = dice.Int(0, 3) > 0 ? due : dice.Int(0, due);
      }
      running.push_back(sequence);
    }
    for (int32_t i = dice.Int(0, 4); i > 0; --i) waiting.push_back(RandomPrompt(dice));
    state.running = running;
    state.waiting = waiting;
  }

  const SequenceState& At(int32_t i, const Round& round) const {
    const auto count = static_cast<int32_t>(running.size());
    return i < count ? running[static_cast<size_t>(i)]
                     : waiting[static_cast<size_t>(round.admitted[static_cast<size_t>(i - count)])];
  }

  Dice dice;
  std::vector<SequenceState> running, waiting;
  SchedulerState state;
};

TEST(NextRound, SealsNoMoreThanItsWindowHoldsBeyondTheTurnOfItsRows) {
  int64_t waited = 0;
  int64_t sealed = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    RandomState random(seed);
    Round round(16, 16);
    NextRound({0}, random.state, round);
    const CostModel& costs = random.state.costs;
    RoundWork rows;  // and what is theirs whatever the window says
    double step_us = 0;
    double seals = 0;
    for (const RoundShare& share : round.shares) {
      const SequenceState& sequence = random.At(share.sequence, round);
      const SequenceProgress& progress = sequence.progress;
      EXPECT_GT(share.tokens + share.seals, 0);
      seals += share.seals;
      sealed += share.seals;
      // Nobody computes a row before what is far for it is sealed.
      const int32_t last = progress.tokens_computed + share.tokens - 1;
      if (share.tokens > 0 && last >= kRules.engage_at) {
        EXPECT_GE(progress.seals_made + share.seals, FarSegments(last) * kLayers);
      }
      EXPECT_LE(progress.seals_made + share.seals,
                SealsDue(progress.tokens_computed + share.tokens, kLayers));
      if (progress.decoding()) {
        if (share.tokens == 0) ++waited;
        if (share.tokens > 0) rows.AddDecode(progress.tokens_known);
        rows.seals += std::min<int64_t>(share.seals, 1);
      } else {
        // The least that the first prompt may take: a seal, or a grain with what is due by its end.
        const double grain_us = ShareUs(sequence, kRules, costs, CutAtGrain(progress, kChunkGrain));
        step_us = std::max(step_us, SealsOwed(sequence, kRules, 0) > 0 ? costs.seal_us : grain_us);
      }
    }
    EXPECT_EQ(round.work.seals, seals);
    const double us = costs.PredictUs(round.work);
    EXPECT_LE(us,
              std::max(static_cast<double>(round.window_us), costs.PredictUs(rows)) + step_us + 1);
  }
  EXPECT_GT(waited, 100);
  EXPECT_GT(sealed, 10'000);
}

// A server with one decoder beside a prompt of which the cache had everything but the seals.
struct Played {
  int64_t first_token_us = 0;
  int64_t longest_us = 0;
  int64_t seals = 0;
  int32_t rounds_without_tokens = 0;
};

Played PlayAHit(SchedulerState state, SequenceState newcomer, SequenceState decoder) {
  Played played;
  Round round(8, 8);
  std::vector<SequenceState> running = {decoder};
  running.push_back(newcomer);
  while (!running[1].progress.decoding()) {
    state.running = running;
    NextRound({played.first_token_us}, state, round);
    const auto us = static_cast<int64_t>(state.costs.PredictUs(round.work));
    played.first_token_us += us;
    played.longest_us = std::max(played.longest_us, us);
    state.memory = round.after;
    bool has_row = false;
    for (const RoundShare& share : round.shares) {
      SequenceProgress& progress = running[static_cast<size_t>(share.sequence)].progress;
      progress.seals_made += share.seals;
      if (share.sequence == 1) {
        played.seals += share.seals;
        if (share.tokens == 0) ++played.rounds_without_tokens;
      } else {
        has_row = share.tokens == 1;
      }
      progress.tokens_computed += share.tokens;
      if (share.tokens > 0 && progress.tokens_pending() == 0) ++progress.tokens_known;
    }
    EXPECT_TRUE(has_row) << "the neighbour gets a row in every round";
  }
  return played;
}

TEST(NextRound, SpreadsTheSealsOfAHitOverRoundsAndPredictsTheirTime) {
  SchedulerState state;
  state.slots_free = 1;
  state.pages_free = 1000;
  state.segments_free = 1000;
  state.bounds = {512, 128};
  state.sealing = kRules;
  state.options.policy = SchedulingPolicy::kImmediate;
  const SequenceState newcomer = Sparse(32'000, 31'992, 0);
  SequenceState decoder;
  decoder.progress = {10, 11, 10, 9, kReads};
  decoder.answer_tokens = 1000;

  const Played played = PlayAHit(state, newcomer, decoder);
  EXPECT_EQ(played.seals, SealsDue(32'000, kLayers));
  EXPECT_LE(played.longest_us, kImmediateWindowUs + 1);
  // 31 segments of 30 layers at 0.7 ms are 651 ms; 110 of 120 ms are left beside the row.
  EXPECT_GE(played.rounds_without_tokens, 5);

  Rollout rollout(8, 8);
  RolloutStart start;
  start.state = state;
  const std::vector<SequenceState> running = {decoder};
  start.state.running = running;
  EXPECT_EQ(rollout.Run({0}, start, newcomer).first_token_us, played.first_token_us);
  // Sealed ones that come with the hit take no time.
  const SequenceState whole = Sparse(32'000, 31'992, SealsDue(31'992, kLayers));
  EXPECT_LT(rollout.Run({0}, start, whole).first_token_us, played.first_token_us / 4);
}

TEST(SealsOfDecode, AreDoneWhenRowsBecomeSparse) {
  // A room that grew took its segments late.
  SequenceState sequence = Sparse(100, kRules.engage_at - 500, 0);
  sequence.progress.tokens_known = sequence.progress.tokens_computed + 1;
  int32_t most = 0;
  for (; sequence.progress.tokens_computed < kRules.engage_at + 2000;
       ++sequence.progress.tokens_computed, ++sequence.progress.tokens_known) {
    const DecodeSeals seals = SealsOfDecode(sequence, kRules);
    EXPECT_LE(seals.needed, seals.turn) << sequence.progress.tokens_computed;
    most = std::max(most, seals.wanted);
    sequence.progress.seals_made += seals.wanted;
  }
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace remontoir
