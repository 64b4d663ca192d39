// In which order sequences join and prompts are computed.
#pragma once

#include <cstdint>

#include "scheduler/scheduler.h"
#include "scheduler/sealing.h"

namespace remontoir {

// For a stable sort of sequences in order of arrival or admission, which is kept between equals. By
// priority, where everybody who has waited for kStarvationUs counts as the first; then, where the
// shortest goes first, by the time that the rest of the prompt takes, less the time waited /
// ageing.
class ServiceOrder {
 public:
  ServiceOrder(TimePoint now, const SchedulerState& state)
      : now_(now),
        costs_(state.costs),
        sealing_(state.sealing),
        shortest_(state.options.policy == SchedulingPolicy::kAdaptive &&
                  state.options.order == SchedulingOrder::kShortest),
        ageing_(state.options.ageing) {}

  bool Before(const SequenceState& a, const SequenceState& b) const {
    const int32_t rank_a = Rank(a);
    const int32_t rank_b = Rank(b);
    if (rank_a != rank_b) return rank_a < rank_b;
    return shortest_ && Cost(a) < Cost(b);
  }

 private:
  int32_t Rank(const SequenceState& sequence) const {
    return ElapsedUs(sequence.arrived, now_) >= kStarvationUs ? kPriorityMin : sequence.priority;
  }

  double Cost(const SequenceState& sequence) const {
    const SequenceProgress& progress = sequence.progress;
    const double waited_us = static_cast<double>(ElapsedUs(sequence.arrived, now_));
    return ShareUs(sequence, sealing_, costs_, progress.tokens_pending()) - waited_us / ageing_;
  }

  const TimePoint now_;
  const CostModel& costs_;
  const SealingRules& sealing_;
  const bool shortest_;
  const double ageing_;
};

}  // namespace remontoir
