// What a request says of its turn in its headers: priority, company, deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/error_body.h"
#include "http/http_message.h"

namespace remontoir {

// From the headers of one request.
struct ScheduleHeaders {
  std::optional<int32_t> priority = {};  // X-Priority, kPriorityMin ... kPriorityMax
  bool alone = false;                    // X-No-Batch: true
  int64_t first_token_us_max = 0;        // x-slo-ttft-ms, from the request's last byte; 0: not sent
  bool wants_timings = false;            // X-Timings: true
};

inline constexpr int64_t kDeadlineMsMax = 3'600'000;

// Fills `schedule`, or names the header whose value is none of those above. Of a header that is
// sent twice the last counts.
std::optional<ErrorBody> ReadScheduleHeaders(const HttpHeaders& headers, ScheduleHeaders& schedule);

// A priority that no reading of the body can undercut, without parsing it: that of the header, 0
// where neither says anything, the first of all where the body may.
int32_t FirstPriorityOf(const ScheduleHeaders& schedule, std::string_view body);

}  // namespace remontoir
