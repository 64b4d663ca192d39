// Logs of arrivals: both spellings, and errors that name the line.
#include "predictor/arrival_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remontoir {
namespace {

using testing::HasSubstr;

constexpr const char* kCsv =
    "t_us,prompt_tokens,output_tokens,client_cell,device\n"
    "0,100,5,63,0\r\n"
    "1500,7,2,,3\n";

TEST(ArrivalLog, ReadsCsv) {
  const Result<ArrivalLog> log = ParseArrivalLog(kCsv, "log");
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_EQ(log->arrivals.size(), 2U);
  EXPECT_EQ(log->arrivals[0].prompt_tokens, 100);
  EXPECT_EQ(log->arrivals[0].client_cell, 63);
  EXPECT_EQ(log->arrivals[1].t_us, 1500);
  EXPECT_EQ(log->arrivals[1].client_cell, kUnknownClass);
  EXPECT_EQ(log->arrivals[1].device, 3);
  EXPECT_TRUE(log->has_clients);
  EXPECT_TRUE(log->has_devices);
  EXPECT_EQ(log->SpanUs(), 1500);
}

TEST(ArrivalLog, ReadsJsonLines) {
  const Result<ArrivalLog> log = ParseArrivalLog(
      "{\"t_us\": 5, \"prompt_tokens\": 1, \"output_tokens\": 2, \"note\": \"x\"}\n\n"
      "{\"t_us\": 5, \"prompt_tokens\": 3, \"output_tokens\": 4, \"device\": 1}",
      "log");
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_EQ(log->arrivals.size(), 2U);
  EXPECT_FALSE(log->has_clients);
  EXPECT_EQ(log->arrivals[1].device, 1);
}

TEST(ArrivalLog, PassesOverColumnsItDoesNotKnowAndFoldsClients) {
  const Result<ArrivalLog> log = ParseArrivalLog(
      "t_us,block_hashes,prompt_tokens,output_tokens,client\n0,0 1 2,4,5,130\n", "log");
  ASSERT_TRUE(log.ok()) << log.status().message();
  EXPECT_EQ(log->arrivals[0].client_cell, 130 % kClientCells);
}

TEST(ArrivalLog, NamesTheLineThatIsWrong) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"", "log: no arrivals"},
      {"t_us,prompt_tokens,output_tokens\n", "log: no arrivals"},
      {"t_us,prompt_tokens,output_tokens\n0,1,2\nx,1,2\n", "log, line 3: t_us wants"},
      {"t_us,prompt_tokens,output_tokens\n0,1,-2\n", "log, line 2: output_tokens wants"},
      {"t_us,prompt_tokens,output_tokens\n0,1.5,2\n", "log, line 2: prompt_tokens wants"},
      {"t_us,prompt_tokens,output_tokens\n0,1\n", "log, line 2: has no output_tokens"},
      {"t_us,prompt_tokens,output_tokens\n0,1,2,3\n", "log, line 2: more cells than columns"},
      {"t_us,prompt_tokens,output_tokens\n9,1,2\n8,1,2\n", "log, line 3: t_us is less"},
      {"t_us,prompt_tokens,output_tokens\n99999999999999999999,1,2\n", "log, line 2: t_us wants"},
      {"t_us,t_us\n", "log, line 1: t_us stands twice"},
      {"a,b\n1,2\n", "log, line 2: has no t_us"},
      {"t_us,prompt_tokens,output_tokens,client_cell\n0,1,2,64\n", "line 2: client_cell wants"},
      {"t_us,prompt_tokens,output_tokens,device\n0,1,2,4\n", "line 2: device wants"},
      {"{\"t_us\": 1, \"prompt_tokens\": 1", "log, line 1: is no JSON object"},
      {"{\"t_us\": \"1\", \"prompt_tokens\": 1, \"output_tokens\": 1}", "line 1: t_us wants"},
      {"{\"t_us\": 1, \"output_tokens\": 1}\n", "log, line 1: has no prompt_tokens"},
  };
  for (const auto& [text, error] : kCases) {
    const Result<ArrivalLog> log = ParseArrivalLog(text, "log");
    ASSERT_FALSE(log.ok()) << text;
    EXPECT_THAT(log.status().message(), HasSubstr(error)) << text;
  }
}

}  // namespace
}  // namespace remontoir
