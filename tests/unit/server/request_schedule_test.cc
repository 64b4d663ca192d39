// What headers say of a request's turn.
#include "server/request_schedule.h"

#include <gtest/gtest.h>

#include <string>

#include "scheduler/policy.h"

namespace remontoir {
namespace {

TEST(ReadScheduleHeaders, KnowsEverySpelling) {
  const struct {
    HttpHeaders headers;
    std::optional<int32_t> priority = {};
    bool alone = false;
    int64_t first_token_us_max = 0;
    bool wants_timings = false;
  } kCases[] = {
      {{}},
      {{{"X-Priority", "0"}}, 0},
      {{{"x-priority", "-100"}}, -100},
      {{{"X-Priority", "100"}}, 100},
      {{{"X-Priority", "1"}, {"X-Priority", "2"}}, 2},
      {{{"X-No-Batch", "true"}}, {}, true},
      {{{"x-no-batch", "TRUE"}}, {}, true},
      {{{"X-No-Batch", "false"}}},
      {{{"x-slo-ttft-ms", "250"}}, {}, false, 250'000},
      {{{"X-SLO-TTFT-MS", "0.5"}}, {}, false, 500},
      {{{"x-slo-ttft-ms", "1e3"}}, {}, false, 1'000'000},
      {{{"x-slo-ttft-ms", "3600000"}}, {}, false, 3'600'000'000},
      {{{"X-Timings", "True"}}, {}, false, 0, true},
      {{{"X-Timings", "false"}, {"X-Priorities", "high"}}},
  };
  for (const auto& test : kCases) {
    std::string shown;
    for (const auto& [name, value] : test.headers) shown += name + ": " + value + "\n";
    SCOPED_TRACE(shown);
    ScheduleHeaders schedule;
    EXPECT_FALSE(ReadScheduleHeaders(test.headers, schedule).has_value());
    EXPECT_EQ(schedule.priority, test.priority);
    EXPECT_EQ(schedule.alone, test.alone);
    EXPECT_EQ(schedule.first_token_us_max, test.first_token_us_max);
    EXPECT_EQ(schedule.wants_timings, test.wants_timings);
  }
}

TEST(ReadScheduleHeaders, RefuseAnyOtherValueByName) {
  const struct {
    const char* name;
    const char* param;
    const char* values[8];
  } kCases[] = {
      {"x-priority", "X-Priority", {"", "high", "101", "-101", "1.5", "5 ", "99999999999", "+1"}},
      {"x-no-batch", "X-No-Batch", {"", "1", "yes", "true,true", "t", "no", "0", "on"}},
      {"X-Slo-Ttft-Ms", "x-slo-ttft-ms", {"", "0", "-5", "nan", "inf", "250ms", "3600001", "0x10"}},
      {"x-timings", "X-Timings", {"", "1", "yes", "all", "-", "tru", "TRUE!", "null"}},
  };
  for (const auto& test : kCases) {
    for (const char* value : test.values) {
      ScheduleHeaders schedule;
      const auto error = ReadScheduleHeaders({{test.name, value}}, schedule);
      ASSERT_TRUE(error.has_value()) << test.name << ": " << value;
      EXPECT_EQ(error->http_status, 400);
      EXPECT_EQ(error->param, test.param);
    }
  }
}

TEST(FirstPriorityOf, IsNeverBehindWhatTheRequestMaySay) {
  EXPECT_EQ(FirstPriorityOf({}, R"({"prompt":"a"})"), 0);
  EXPECT_EQ(FirstPriorityOf({}, R"({"prompt":"a","priority":-3})"), kPriorityMin);
  EXPECT_EQ(FirstPriorityOf({}, std::string(1 << 20, ' ')), kPriorityMin);
  EXPECT_EQ(FirstPriorityOf({.priority = 7}, R"({"prompt":"a","priority":-3})"), 7);
}

}  // namespace
}  // namespace remontoir
