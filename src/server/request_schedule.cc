// Reading the headers: a wrong value is an error, whatever else the request says.
#include "server/request_schedule.h"

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "api/headers.h"
#include "scheduler/policy.h"

namespace remontoir {
namespace {

// Looking through a longer body would keep the event loop.
constexpr size_t kBodyBytesSearched = 256 << 10;

// All of the text as a number.
template <class Number>
std::optional<Number> ReadNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<ErrorBody> ReadFlag(const char* name, std::string_view value, bool& flag) {
  const bool says_true = EqualsIgnoreCase(value, "true");
  if (!says_true && !EqualsIgnoreCase(value, "false")) {
    return InvalidField(name, "must be true or false");
  }
  flag = says_true;
  return std::nullopt;
}

std::optional<ErrorBody> ReadPriority(std::string_view value, std::optional<int32_t>& priority) {
  const auto number = ReadNumber<int32_t>(value);
  if (!number.has_value() || *number < kPriorityMin || *number > kPriorityMax) {
    return InvalidField(kHeaderPriority, "must be an integer between " +
                                             std::to_string(kPriorityMin) + " and " +
                                             std::to_string(kPriorityMax));
  }
  priority = *number;
  return std::nullopt;
}

std::optional<ErrorBody> ReadDeadline(std::string_view value, int64_t& first_token_us_max) {
  const auto ms = ReadNumber<double>(value);
  // Below a microsecond there is nothing left.
  if (!ms.has_value() || !(*ms >= 0.001 && *ms <= static_cast<double>(kDeadlineMsMax))) {
    return InvalidField(kHeaderTtftSloMs, "must be a positive number of milliseconds, at most " +
                                              std::to_string(kDeadlineMsMax));
  }
  first_token_us_max = std::llround(*ms * 1000);
  return std::nullopt;
}

std::optional<ErrorBody> ReadHeader(std::string_view name, std::string_view value,
                                    ScheduleHeaders& schedule) {
  if (EqualsIgnoreCase(name, kHeaderPriority)) return ReadPriority(value, schedule.priority);
  if (EqualsIgnoreCase(name, kHeaderNoBatch)) {
    return ReadFlag(kHeaderNoBatch, value, schedule.alone);
  }
  if (EqualsIgnoreCase(name, kHeaderTimings)) {
    return ReadFlag(kHeaderTimings, value, schedule.wants_timings);
  }
  if (EqualsIgnoreCase(name, kHeaderTtftSloMs)) {
    return ReadDeadline(value, schedule.first_token_us_max);
  }
  return std::nullopt;
}

}  // namespace

std::optional<ErrorBody> ReadScheduleHeaders(const HttpHeaders& headers,
                                             ScheduleHeaders& schedule) {
  for (const auto& [name, value] : headers) {
    if (auto error = ReadHeader(name, value, schedule)) return error;
  }
  return std::nullopt;
}

int32_t FirstPriorityOf(const ScheduleHeaders& schedule, std::string_view body) {
  if (schedule.priority.has_value()) return *schedule.priority;
  const bool may_say =
      body.size() > kBodyBytesSearched || body.find("\"priority\"") != std::string_view::npos;
  return may_say ? kPriorityMin : 0;
}

}  // namespace remontoir
