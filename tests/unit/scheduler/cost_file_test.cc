// Costs on disk: what comes back, and what is refused.
#include "scheduler/cost_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

TEST(CostFile, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/costs.json";
  const CostModel costs = {1234.5, 0.125, 77, 1e-3, 0, 812.5};
  ASSERT_TRUE(WriteCostFile(costs, path).ok());
  const Result<CostModel> read = ReadCostFile(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->round_us, costs.round_us);
  EXPECT_EQ(read->prefill_token_us, costs.prefill_token_us);
  EXPECT_EQ(read->decode_row_us, costs.decode_row_us);
  EXPECT_EQ(read->decode_key_us, costs.decode_key_us);
  EXPECT_EQ(read->prefill_key_us, costs.prefill_key_us);
  EXPECT_EQ(read->seal_us, costs.seal_us);
}

TEST(CostFile, OfBeforeSealsHadACostIsRead) {
  const Result<CostModel> read = ParseCosts(
      R"({"round_us":9,"prefill_token_us":1,"decode_row_us":1,"decode_key_us":1,"prefill_key_us":1})",
      "name");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->round_us, 9);
  EXPECT_EQ(read->seal_us, CostModel{}.seal_us);
}

TEST(CostFile, IsRefusedWithTheKeyThatIsWrong) {
  struct Case {
    std::string json;
    std::string blames;
  };
  const std::vector<Case> cases = {
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {R"({"round_us":1})", "prefill_token_us"},
      {R"({"round_us":"x"})", "round_us"},
      {R"({"round_us":-1})", "round_us"},
      {R"({"round_us":1e99})", "round_us"},
      {R"({"round_us":0,"prefill_token_us":1,"decode_row_us":1,"decode_key_us":1,"prefill_key_us":1})",
       "round_us"},
  };
  for (const Case& c : cases) {
    const Status status = ParseCosts(c.json, "name").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.json;
    EXPECT_THAT(status.message(), testing::HasSubstr(c.blames)) << c.json;
    EXPECT_THAT(status.message(), testing::HasSubstr("name")) << c.json;
  }
  EXPECT_EQ(ReadCostFile("/nowhere/costs.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace remontoir
