// Lines of JSON on stderr.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace remontoir {
namespace {

TEST(LogJson, WritesOneObjectALineWithTimeAndLevel) {
  ::testing::internal::CaptureStderr();
  LogJson(LogLevel::kInfo, R"("a":1,"b":"{}%v")");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::MatchesRegex(
                  R"(\{"time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z",)"
                  R"("level":"info","a":1,"b":"\{\}%v"\})"
                  "\n"));
}

TEST(LogJson, HeedsTheLevelThatIsSet) {
  SetLogLevel(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  LogJson(LogLevel::kInfo, R"("a":1)");
  LogJson(LogLevel::kWarning, R"("a":2)");
  const std::string told = ::testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(told.find("\"a\":1"), std::string::npos);
  EXPECT_NE(told.find("\"a\":2"), std::string::npos);
}

}  // namespace
}  // namespace remontoir
