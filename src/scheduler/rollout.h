// When a newcomer's first token would come: the scheduler itself, run ahead of time.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/scheduler.h"

namespace remontoir {

// What a roll-out starts from.
struct RolloutStart {
  // As NextRound would get it: the running sequences before the round that is under way, who joined
  // it already among them.
  SchedulerState state;
  // The round under way, none: empty. Indexes into running.
  std::vector<RoundShare> shares;
  TimePoint ends;  // when it is expected to end, or now
};

struct RolloutEnd {
  int64_t first_token_us = 0;  // from `now` to the newcomer's first token
  int64_t admission_us = 0;    // from `now` until anybody who waits joins
};

// One thread at a time; storage is taken when made and none later.
class Rollout {
 public:
  Rollout(int32_t sequences_max, int32_t waiting_max);

  // Plays rounds until the newcomer's first token, as if nobody else came: every answer as long as
  // its answer_tokens, every round as long as the costs say. After kRoundsMax rounds the rest is
  // estimated as if all prompts went first. The newcomer arrives at `now`, behind the waiting ones.
  RolloutEnd Run(TimePoint now, const RolloutStart& start, const SequenceState& newcomer) {
    return RunLater(now, 0, start, newcomer);
  }

  // After how long, from `now`, a newcomer like this one would get its first token within
  // first_token_us_max of its arrival. kUsMax: not even by itself. Takes a few runs.
  int64_t WhenWithin(TimePoint now, const RolloutStart& start, const SequenceState& newcomer,
                     int64_t first_token_us_max);

  static constexpr int32_t kRoundsMax = 512;
  static constexpr int64_t kUsMax = 3'600'000'000;  // no answer is above it

 private:
  struct Place {
    SequenceState state;
    bool newcomer = false;
  };

  // The newcomer arrives delay_us after `now`; its first token counts from there.
  RolloutEnd RunLater(TimePoint now, int64_t delay_us, const RolloutStart& start,
                      const SequenceState& newcomer);
  void Begin(const RolloutStart& start);
  static Place Newcomer(SequenceState state, TimePoint arrives);
  bool Empty() const { return running_.empty() && waiting_.empty(); }
  // Applies shares of a round that ends at now_; false once the newcomer's first token is out.
  bool Apply(const std::vector<RoundShare>& shares, int64_t times);
  void Join(const Round& round);
  void Leave();
  void GiveBack(const SequenceState& sequence);
  // How many rounds like this one follow each other until something changes.
  int64_t Repeats(const Round& round, int64_t round_us) const;
  int64_t RestUs() const;

  TimePoint now_;
  TimePoint arrives_;
  bool arrived_ = false;
  SchedulerState state_;
  Round round_;
  std::vector<Place> running_, waiting_;
  std::vector<SequenceState> running_states_, waiting_states_;
  std::vector<RoomClass> classes_;
  bool first_token_ = false;
};

// When a retry should be let in that would be after `us` if nobody else came: what comes in between
// takes its share. load: share of the time that is taken by what arrives.
int64_t RetryAfterUs(int64_t us, double load);

}  // namespace remontoir
