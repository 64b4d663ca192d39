// From the engine's facts to headers.
#include "server/reply_schedule.h"

#include <string>

#include "api/headers.h"
#include "api/timings.h"

namespace remontoir {
namespace {

constexpr int64_t kUsPerMs = 1000;

std::string NearestMs(int64_t us) { return std::to_string((us + kUsPerMs / 2) / kUsPerMs); }

}  // namespace

HttpHeaders ScheduleReplyHeaders(const ReplySchedule& schedule) {
  HttpHeaders headers = {
      {kHeaderTtftPredictedMs, std::to_string(RoundedUpMs(schedule.ttft_predicted_us))},
      {kHeaderBatchPolicy, std::string(Name(schedule.policy))},
  };
  if (!schedule.round.has_value()) return headers;
  headers.Add(kHeaderBatchSize, std::to_string(schedule.round->sequences));
  headers.Add(kHeaderBatchWindowMs, std::to_string(schedule.round->window_ms));
  headers.Add(kHeaderBatchWaitMs, NearestMs(schedule.round->hold_us));
  headers.Add(kHeaderQueueMs, NearestMs(schedule.queue_us));
  return headers;
}

}  // namespace remontoir
