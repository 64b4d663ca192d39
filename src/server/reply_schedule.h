// What a reply's headers say of its turn: predicted and real.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "http/http_message.h"
#include "scheduler/policy.h"

namespace remontoir {

struct ReplySchedule {
  SchedulingPolicy policy = SchedulingPolicy::kImmediate;
  int64_t ttft_predicted_us = 0;  // from the request's last byte
  // Of the choice that was placed first, once one is.
  std::optional<RoundFacts> round = {};
  int64_t queue_us = 0;
};

// X-TTFT-Predicted-Ms and X-Batch-Policy always; X-Batch-Size, X-Batch-Window-Ms, X-Batch-Wait-Ms
// and X-Queue-Ms once the round is known. Milliseconds are whole, rounded to the nearest, but for
// the prediction, which is rounded up.
HttpHeaders ScheduleReplyHeaders(const ReplySchedule& schedule);

}  // namespace remontoir
