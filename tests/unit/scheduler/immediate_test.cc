// The policy `immediate`: who is admitted, how far prompts move, and a whole life by simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

namespace remontoir {

inline bool operator==(const RoundShare& a, const RoundShare& b) {
  return a.sequence == b.sequence && a.tokens == b.tokens;
}
inline void PrintTo(const RoundShare& share, std::ostream* out) {
  *out << share.sequence << ": " << share.tokens;
}

namespace {

using ::testing::ElementsAreArray;

constexpr int32_t kRoom = 1000;

SequenceProgress Decoding(int32_t room = kRoom) { return {10, 15, 14, 9, room}; }
SequenceProgress Prefilling(int32_t prompt, int32_t computed) {
  return {prompt, prompt, computed, prompt - 1, kRoom};
}
SequenceProgress Scoring(int32_t prompt, int32_t computed, int32_t room = kRoom) {
  return {prompt, prompt, computed, 0, room};
}
SequenceState Waiting(SequenceProgress progress, int32_t pages) {
  return {{}, progress, {.pages = pages}};
}

SequenceState WaitingFor(RoomNeed room) { return {{}, Prefilling(8, 0), room}; }

struct RoundCase {
  std::string name;
  std::vector<SequenceProgress> running;
  std::vector<SequenceState> waiting;
  int32_t slots_free;
  int32_t pages_free;
  RoundBounds bounds;
  int32_t window_tokens;  // what the cost estimate allows
  std::vector<int32_t> admitted;
  std::vector<RoundShare> shares;
  int64_t now_us = 0;  // everybody arrived at 0
  std::vector<RoomClass> classes = {};
  int32_t dynamic_pages_free = 0;
};

const RoundBounds kWide = {512, 128};

std::vector<RoundCase> Cases() {
  return {
      {"nothing to do", {}, {}, 8, 100, kWide, 120, {}, {}},
      {"a short prompt whole",
       {},
       {Waiting(Prefilling(5, 0), 1)},
       8,
       100,
       kWide,
       120,
       {0},
       {{0, 5}}},
      {"everybody decodes", {Decoding(), Decoding()}, {}, 6, 9, kWide, 120, {}, {{0, 1}, {1, 1}}},
      {"a full consumer is left out",
       {Decoding(0), Decoding(1), Decoding(-1)},
       {},
       6,
       9,
       kWide,
       120,
       {},
       {{1, 1}}},
      {"decoders first, prompts behind",
       {Prefilling(100, 8), Decoding()},
       {},
       6,
       9,
       kWide,
       120,
       {},
       {{1, 1}, {0, 92}}},
      {"the window cuts at the grain",
       {Prefilling(100, 8)},
       {},
       6,
       9,
       kWide,
       61,
       {},
       {{0, 56}}},  // to position 64
      {"from an odd start too",
       {Prefilling(100, 13)},
       {},
       6,
       9,
       kWide,
       20,
       {},
       {{0, 19}}},  // to position 32
      {"the end of a prompt needs no grain",
       {Prefilling(100, 88)},
       {},
       6,
       9,
       kWide,
       12,
       {},
       {{0, 12}}},
      {"a full window still moves the first prompt by a grain",
       {Decoding(), Prefilling(100, 8)},
       {},
       6,
       9,
       kWide,
       0,
       {},
       {{0, 1}, {1, 8}}},
      {"the round's bound", {Prefilling(900, 0)}, {}, 6, 9, kWide, 5000, {}, {{0, 512}}},
      {"the round's bound counts decoders",
       {Decoding(), Prefilling(900, 0)},
       {},
       6,
       9,
       kWide,
       5000,
       {},
       {{0, 1}, {1, 504}}},
      {"in order of admission, and the window's rest to the next",
       {Prefilling(40, 0), Prefilling(90, 0), Prefilling(3, 0)},
       {},
       5,
       9,
       kWide,
       100,
       {},
       {{0, 40}, {1, 56}}},
      {"nobody overtakes into the window's rest",
       {Prefilling(100, 0), Prefilling(3, 0)},
       {},
       6,
       9,
       kWide,
       62,
       {},
       {{0, 56}}},
      {"all that fit join, in order",
       {Decoding()},
       {Waiting(Prefilling(8, 0), 2), Waiting(Prefilling(9, 0), 3), Waiting(Prefilling(7, 0), 1)},
       7,
       5,
       kWide,
       120,
       {0, 1},
       {{0, 1}, {1, 8}, {2, 9}}},
      {"who waits for pages is overtaken by who needs fewer",
       {},
       {Waiting(Prefilling(8, 0), 6), Waiting(Prefilling(8, 0), 1)},
       8,
       5,
       kWide,
       120,
       {1},
       {{0, 8}},
       kOvertakenUsMax - 1},
      {"but not for ever",
       {},
       {Waiting(Prefilling(8, 0), 6), Waiting(Prefilling(8, 0), 1)},
       8,
       5,
       kWide,
       120,
       {},
       {},
       kOvertakenUsMax},
      {"a full class spills to the next, and two full ones let nobody in",
       {},
       {WaitingFor({.pages = 1, .tokens = 100}), WaitingFor({.pages = 1, .tokens = 100}),
        WaitingFor({.pages = 1, .tokens = 100}), WaitingFor({.pages = 1, .tokens = 200})},
       8,
       5,
       kWide,
       120,
       {0, 1},
       {{0, 8}, {1, 8}},
       0,
       {{100, 1}, {200, 1}}},
      {"a longer room needs a longer class",
       {},
       {WaitingFor({.pages = 1, .tokens = 150}), WaitingFor({.pages = 1, .tokens = 150}),
        WaitingFor({.pages = 1, .tokens = 100})},
       8,
       5,
       kWide,
       120,
       {0, 2},
       {{0, 8}, {1, 8}},
       0,
       {{100, 2}, {200, 1}}},
      {"one dynamic room a round, beside the arena's",
       {},
       {WaitingFor({.dynamic_pages = 2}), WaitingFor({.dynamic_pages = 2}),
        WaitingFor({.pages = 5})},
       8,
       5,
       kWide,
       120,
       {0, 2},
       {{0, 8}, {1, 8}},
       0,
       {},
       9},
      {"no dynamic room is long enough",
       {},
       {WaitingFor({.dynamic_pages = 2})},
       8,
       5,
       kWide,
       120,
       {},
       {},
       0,
       {},
       1},
      {"slots bound admission",
       {Decoding()},
       {Waiting(Prefilling(8, 0), 1), Waiting(Prefilling(8, 0), 1)},
       1,
       99,
       kWide,
       120,
       {0},
       {{0, 1}, {1, 8}}},
      {"wanted logits bound a score", {Scoring(300, 0)}, {}, 7, 9, kWide, 1000, {}, {{0, 128}}},
      {"decoders' logits count",
       {Decoding(), Scoring(300, 0)},
       {},
       7,
       9,
       kWide,
       1000,
       {},
       {{0, 1}, {1, 120}}},
      {"a prompt beside a score goes up to its last token",
       {Scoring(300, 0), Prefilling(60, 0), Prefilling(33, 0)},
       {},
       7,
       9,
       {512, 129},
       1000,
       {},
       {{0, 128}, {1, 60}, {2, 32}}},
      {"a score moves as far as its consumer has room",
       {Scoring(300, 0, 20), Decoding()},
       {},
       7,
       9,
       kWide,
       1000,
       {},
       {{1, 1}, {0, 16}}},
      {"and waits below a grain",
       {Scoring(300, 0, 7), Prefilling(20, 0)},
       {},
       7,
       9,
       kWide,
       1000,
       {},
       {{1, 20}}},
  };
}

TEST(Immediate, PlansTheseRounds) {
  for (const RoundCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    SchedulerState state;
    std::vector<SequenceState> running;
    for (const SequenceProgress& progress : c.running) running.push_back({{}, progress});
    state.running = running;
    state.waiting = c.waiting;
    state.slots_free = c.slots_free;
    state.pages_free = c.pages_free;
    state.bounds = c.bounds;
    state.costs = {.round_us = 0,
                   .prefill_token_us = c.window_tokens > 0 ? 120'000.0 / c.window_tokens : 1e9,
                   .decode_row_us = 0,
                   .decode_key_us = 0,
                   .prefill_key_us = 0};
    Round round(8, 8);
    state.classes = c.classes;
    state.dynamic_pages_free = c.dynamic_pages_free;
    NextRound({c.now_us}, state, round);
    EXPECT_THAT(round.admitted, ElementsAreArray(c.admitted));
    EXPECT_THAT(round.shares, ElementsAreArray(c.shares));
    EXPECT_EQ(round.window_us, 120'000);
    int32_t rows = 0;
    for (const RoundShare& share : round.shares) rows += share.tokens;
    EXPECT_EQ(round.decode_rows + round.prefill_tokens, rows);
  }
}

// A life of many sequences against a minimal engine: rooms, pages, slots and consumers by seed.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed, 0) {
    bounds_ = {Pick(15, 200), Pick(15, 60)};
    pages_free_ = kPages;
  }

  void Run() {
    for (int step = 0; step < 20'000; ++step) {
      if (arrived_ < kSequences && Pick(0, 3) == 0) Arrive();
      Drain();
      Plan();
      CheckRound();
      Apply();
      if (finished_ == kSequences) break;
    }
    EXPECT_EQ(finished_, kSequences) << "somebody never finished";
    EXPECT_EQ(pages_free_, kPages);
    EXPECT_TRUE(std::is_sorted(first_tokens_of_equals_.begin(), first_tokens_of_equals_.end()));
  }

 private:
  static constexpr int kSequences = 120;
  static constexpr int32_t kSlots = 8;
  static constexpr int32_t kPages = 30;
  static constexpr int32_t kEqualPrompt = 50;

  struct Simulated {
    int id = 0;
    SequenceProgress progress;
    int32_t to_generate = 0;
    int32_t pages = 0;
    int32_t undrained = 0;
    int64_t arrived_us = 0;
    int admission = 0;
  };

  int32_t Pick(int32_t least, int32_t greatest) {
    return least + static_cast<int32_t>(random_.Bits(n_++) % (greatest - least + 1));
  }

  void Arrive() {
    Simulated s;
    s.id = arrived_++;
    const bool scores = Pick(0, 4) == 0;
    const int32_t prompt = Pick(0, 2) == 0 ? kEqualPrompt : Pick(1, 300);
    s.progress = {prompt, prompt, 0, scores ? 0 : prompt - 1, 0};
    s.to_generate = Pick(1, 40);
    s.pages = Pick(1, 12);
    s.arrived_us = now_us_;
    waiting_.push_back(s);
  }

  // Consumers take events at their own pace; each may hold 16.
  void Drain() {
    for (auto* list : {&waiting_, &running_}) {
      for (Simulated& s : *list) {
        s.undrained = std::max(0, s.undrained - Pick(0, 12));
        s.progress.events_room = 16 - s.undrained;
      }
    }
  }

  void Plan() {
    running_states_.clear();
    waiting_states_.clear();
    for (const Simulated& s : running_) running_states_.push_back({{s.arrived_us}, s.progress});
    for (const Simulated& s : waiting_)
      waiting_states_.push_back({{s.arrived_us}, s.progress, {.pages = s.pages}});
    state_.running = running_states_;
    state_.waiting = waiting_states_;
    state_.slots_free = kSlots - static_cast<int32_t>(running_.size());
    state_.pages_free = pages_free_;
    state_.bounds = bounds_;
    NextRound({now_us_}, state_, round_);
  }

  void CheckRound() {
    int32_t rows = 0;
    int32_t logit_rows = 0;
    std::vector<int> times(running_.size() + round_.admitted.size(), 0);
    for (const RoundShare& share : round_.shares) {
      const auto& p =
          share.sequence < static_cast<int32_t>(running_.size())
              ? running_states_[share.sequence].progress
              : waiting_states_[round_.admitted[share.sequence - running_.size()]].progress;
      EXPECT_EQ(times[share.sequence]++, 0) << "twice in a round";
      EXPECT_GT(share.tokens, 0);
      const int32_t end = p.tokens_computed + share.tokens;
      EXPECT_LE(end, p.tokens_known);
      EXPECT_TRUE(end == p.tokens_known || end % kChunkGrain == 0);
      const int32_t wanted = std::max(0, end - std::max(p.logits_begin, p.tokens_computed));
      EXPECT_LE(wanted, p.events_room);
      rows += share.tokens;
      logit_rows += wanted;
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_states_[i].progress.decoding() && running_states_[i].progress.events_room > 0) {
        EXPECT_EQ(times[i], 1) << "a decoder was left out";
      }
    }
    EXPECT_LE(rows, bounds_.tokens_max);
    EXPECT_LE(logit_rows, bounds_.logit_rows_max);
    const auto us = static_cast<int64_t>(state_.costs.PredictUs(round_.work));
    EXPECT_TRUE(us <= round_.window_us + 1 || round_.prefill_tokens <= kChunkGrain) << us;
  }

  void Apply() {
    for (const int32_t place : round_.admitted) {
      const Simulated& s = waiting_[place];
      pages_free_ -= s.pages;
      // Nobody who has waited long enough is overtaken.
      for (int32_t before = 0; before < place; ++before) {
        const bool joins = std::ranges::count(round_.admitted, before) > 0;
        EXPECT_TRUE(joins || now_us_ - waiting_[before].arrived_us < kOvertakenUsMax);
      }
      running_.push_back(s);
      running_.back().admission = admissions_++;
    }
    for (size_t i = round_.admitted.size(); i-- > 0;) {
      waiting_.erase(waiting_.begin() + round_.admitted[i]);
    }
    EXPECT_GE(pages_free_, 0);
    EXPECT_LE(running_.size(), size_t{kSlots});
    for (const RoundShare& share : round_.shares) {
      Simulated& s = running_[share.sequence];
      const int32_t end = s.progress.tokens_computed + share.tokens;
      s.undrained +=
          std::max(0, end - std::max(s.progress.logits_begin, s.progress.tokens_computed));
      s.progress.tokens_computed = end;
      if (end < s.progress.tokens_known) continue;
      const bool equal = s.progress.prompt_tokens == kEqualPrompt && s.progress.logits_begin > 0;
      if (equal && !s.progress.decoding()) first_tokens_of_equals_.push_back(s.admission);
      ++s.progress.tokens_known;
    }
    std::erase_if(running_, [this](const Simulated& s) {
      if (s.progress.tokens_known - s.progress.prompt_tokens < s.to_generate) return false;
      pages_free_ += s.pages;
      ++finished_;
      return true;
    });
    const int64_t us = Pick(100, 200) * (30 + 10 * round_.prefill_tokens + 15 * round_.decode_rows);
    fit_.Add(round_.work, us);
    state_.costs = fit_.model();
    state_.memory = round_.after;
    now_us_ += us;
  }

  const CounterRandom random_;
  uint64_t n_ = 0;
  RoundBounds bounds_;
  SchedulerState state_;
  Round round_{kSlots, kSequences};
  CostFit fit_{CostModel{}};
  std::deque<Simulated> waiting_, running_;
  std::vector<SequenceState> running_states_, waiting_states_;
  int32_t pages_free_ = 0;
  int arrived_ = 0;
  int finished_ = 0;
  int64_t now_us_ = 0;
  int admissions_ = 0;
  std::vector<int> first_tokens_of_equals_;  // by admission
};

TEST(Immediate, FinishesEverybodyWithinTheBoundsInOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Simulation(seed).Run();
  }
}

}  // namespace
}  // namespace remontoir
