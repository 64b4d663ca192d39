// How long a round may take: the window of each policy, and the rule that cuts a batch short.
#pragma once

#include <cstdint>

#include "scheduler/scheduler.h"

namespace remontoir {

// What the rules of a round look at. Seconds.
struct WindowInputs {
  double overhead_s = 0;  // of a round with its decode rows and no prompt
  int32_t prompts = 1;    // requests that wait or are in prefill
  int32_t decode_rows = 0;
  double arrivals_per_s = 0;  // expected, of those that find a free slot
};

// W = clamp(o + sqrt(n o / (kappa D + omega lambda / 2 + 0.001)), least, most): one more cut costs
// each of the n prompts the overhead o, a longer round costs newcomers half of it and each decoder
// a stall. (batching.md, section 7, in the research that came with this project's design.)
int64_t AdaptiveWindowUs(const SchedulerOptions& options, const WindowInputs& inputs);

// The cut rule of one batch, share by share.
class CutRule {
 public:
  // arrivals_per_s: expected, whether they find a slot or not.
  CutRule(const SchedulerOptions& options, double overhead_s, double arrivals_per_s);

  // A share of `s` seconds is next, and `prompts_left` prompts have none yet, this one included:
  // how much of it, in seconds, the batch should take; `s`: all, 0: the batch ends before it.
  double Allow(double s, int32_t prompts_left) const;
  // A share of `s` seconds was taken; `completes` its prompt.
  void Take(double s, bool completes);

 private:
  const double overhead_s_;
  const double pressure_;  // omega lambda
  double elapsed_s_;
  int32_t completing_ = 0;
};

}  // namespace remontoir
