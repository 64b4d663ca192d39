// The engine's facts as headers.
#include "server/reply_schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace remontoir {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

Fields FieldsOf(const ReplySchedule& schedule) {
  const HttpHeaders headers = ScheduleReplyHeaders(schedule);
  return {headers.begin(), headers.end()};
}

TEST(ScheduleReplyHeaders, LeaveOutWhatIsNotKnown) {
  EXPECT_EQ(FieldsOf({.policy = SchedulingPolicy::kAdaptive, .ttft_predicted_us = 1}),
            (Fields{{"X-TTFT-Predicted-Ms", "1"}, {"X-Batch-Policy", "adaptive"}}));
}

TEST(ScheduleReplyHeaders, AreWholeMilliseconds) {
  EXPECT_EQ(FieldsOf({.policy = SchedulingPolicy::kFixed,
                      .ttft_predicted_us = 20'001,
                      .round = RoundFacts{.sequences = 3, .window_ms = 200, .hold_us = 1'499},
                      .queue_us = 1'500}),
            (Fields{{"X-TTFT-Predicted-Ms", "21"},
                    {"X-Batch-Policy", "fixed"},
                    {"X-Batch-Size", "3"},
                    {"X-Batch-Window-Ms", "200"},
                    {"X-Batch-Wait-Ms", "1"},
                    {"X-Queue-Ms", "2"}}));
}

}  // namespace
}  // namespace remontoir
