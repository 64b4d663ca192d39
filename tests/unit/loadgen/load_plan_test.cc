// Facts about planned loads: the seed decides, shares are exact, traces are read with care.
#include "loadgen/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "loadgen/prompt_text.h"

namespace remontoir {

bool operator==(const PlannedRequest& a, const PlannedRequest& b) {
  return std::tie(a.time_us, a.prompt_tokens, a.output_tokens, a.is_long) ==
         std::tie(b.time_us, b.prompt_tokens, b.output_tokens, b.is_long);
}

namespace {

using ::testing::HasSubstr;

TEST(OpenLoad, IsTheSameForTheSameSeedAlone) {
  const LoadPlan plan = DrawOpenLoad({}, 10, 60, 7).value();
  EXPECT_EQ(plan, DrawOpenLoad({}, 10, 60, 7).value());
  EXPECT_NE(plan, DrawOpenLoad({}, 10, 60, 8).value());
}

TEST(OpenLoad, ALongerLoadBeginsWithTheSameArrivals) {
  const LoadPlan shorter = DrawOpenLoad({}, 10, 10, 7).value();
  const LoadPlan longer = DrawOpenLoad({}, 10, 20, 7).value();
  ASSERT_GT(longer.size(), shorter.size());
  for (size_t i = 0; i < shorter.size(); ++i) EXPECT_EQ(longer[i].time_us, shorter[i].time_us);
}

TEST(OpenLoad, HasExponentialGapsOfTheRate) {
  const LoadPlan plan = DrawOpenLoad({}, 20, 1000, 3).value();
  // 20,000 arrivals: a standard deviation is 141.
  EXPECT_NEAR(static_cast<double>(plan.size()), 20'000, 600);
  double above_mean = 0;
  for (size_t i = 1; i < plan.size(); ++i) {
    ASSERT_GE(plan[i].time_us, plan[i - 1].time_us);
    if (plan[i].time_us - plan[i - 1].time_us > 50'000) ++above_mean;
  }
  // e^-1 of exponential gaps are longer than their mean.
  EXPECT_NEAR(above_mean / static_cast<double>(plan.size()), 0.368, 0.02);
  EXPECT_LT(plan.back().time_us, 1'000'000'000);
}

TEST(OpenLoad, HasExactlyItsShareOfLongPrompts) {
  const LoadShape shape{{20, 60}, {1000, 2000}, {32, 96}, 0.15};
  for (const uint64_t seed : {1, 2, 3}) {
    const LoadPlan plan = DrawOpenLoad(shape, 5, 100, seed).value();
    double long_ones = 0;
    for (const PlannedRequest& request : plan) {
      if (request.is_long) ++long_ones;
      const TokenRange& range = request.is_long ? shape.long_prompt : shape.short_prompt;
      EXPECT_GE(request.prompt_tokens, range.low);
      EXPECT_LE(request.prompt_tokens, range.high);
      EXPECT_GE(request.output_tokens, 32);
      EXPECT_LE(request.output_tokens, 96);
    }
    EXPECT_NEAR(long_ones, 0.15 * static_cast<double>(plan.size()), 0.5001);
  }
}

TEST(OpenLoad, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(DrawOpenLoad({}, 0, 10, 1).ok());
  EXPECT_FALSE(DrawOpenLoad({}, 1, -1, 1).ok());
  EXPECT_FALSE(DrawOpenLoad({}, 1e-4, 1e-3, 1).ok());  // nobody would arrive
  EXPECT_FALSE(DrawOpenLoad({}, 1e5, 1e6, 1).ok());    // too many
  EXPECT_THAT(DrawOpenLoad({{0, 5}}, 1, 10, 1).status().message(), HasSubstr("short prompts"));
  EXPECT_THAT(DrawOpenLoad({{1, 5}, {9, 8}}, 1, 10, 1).status().message(),
              HasSubstr("long prompts"));
  EXPECT_FALSE(DrawOpenLoad({{1, 5}, {8, 9}, {1, 2}, 1.5}, 1, 10, 1).ok());
}

TEST(ClosedLoad, HasAsManyRequestsAsAskedFor) {
  EXPECT_EQ(DrawClosedLoad({}, 123, 1).value().size(), 123U);
  EXPECT_EQ(DrawClosedLoad({}, 123, 1).value(), DrawClosedLoad({}, 123, 1).value());
  EXPECT_FALSE(DrawClosedLoad({}, 0, 1).ok());
  EXPECT_FALSE(DrawClosedLoad({}, kLoadRequestsMax + 1, 1).ok());
}

TEST(TraceLoad, StartsAtZeroAndKeepsItsGaps) {
  const LoadPlan plan =
      ReadTraceLoad("t_us,prompt_tokens,output_tokens,client_cell\r\n1000,10,2,5\r\n3500,800,4,1\n",
                    {.long_from_tokens = 500})
          .value();
  EXPECT_EQ(plan, (LoadPlan{{0, 10, 2, false}, {2500, 800, 4, true}}));
}

TEST(TraceLoad, StretchesToARateAndEnds) {
  const std::string text =
      "t_us,prompt_tokens,output_tokens\n0,1,1\n100,1,1\n200,1,1\n400,1,1\n500,0,0\n";
  // Four gaps at 2 a second take 2 s.
  const LoadPlan plan = ReadTraceLoad(text, {.rate = 2}).value();
  ASSERT_EQ(plan.size(), 5U);
  EXPECT_EQ(plan[1].time_us, 400'000);
  EXPECT_EQ(plan[4].time_us, 2'000'000);
  EXPECT_EQ(plan[4].prompt_tokens, 1);
  EXPECT_EQ(ReadTraceLoad(text, {.rate = 2, .seconds = 1}).value().size(), 3U);
  EXPECT_EQ(ReadTraceLoad(text, {.requests_max = 2}).value().size(), 2U);
}

TEST(TraceLoad, NamesTheLineThatIsWrong) {
  const std::string header = "t_us,prompt_tokens,output_tokens\n";
  EXPECT_THAT(ReadTraceLoad("time,tokens\n", {}).status().message(), HasSubstr("line 1"));
  EXPECT_FALSE(ReadTraceLoad(header, {}).ok());
  EXPECT_FALSE(ReadTraceLoad("", {}).ok());
  for (const char* line : {"5,1", "x,1,1", "-1,1,1", "5,1.5,1", "5,99999999999,1", "0,1,1", ",,"}) {
    EXPECT_THAT(ReadTraceLoad(header + "1,1,1\n" + line + "\n", {}).status().message(),
                HasSubstr("line 3"))
        << line;
  }
}

TEST(ThinkUs, HasTheMeanAndIsDrawnByIndex) {
  double sum = 0;
  for (int64_t i = 0; i < 10'000; ++i) sum += static_cast<double>(ThinkUs(2, 1, i));
  EXPECT_NEAR(sum / 1e10, 2, 0.1);
  EXPECT_EQ(ThinkUs(2, 1, 5), ThinkUs(2, 1, 5));
  EXPECT_EQ(ThinkUs(0, 1, 5), 0);
}

TEST(PromptText, HasTheWordsOfItsSeedAndIndex) {
  const std::string text = PromptText(1, 2, 50);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 49);
  EXPECT_EQ(text, PromptText(1, 2, 50));
  EXPECT_NE(text, PromptText(2, 2, 50));
  EXPECT_TRUE(PromptText(1, 2, 60).starts_with(text));
}

TEST(PromptText, NoTwoPromptsOfALoadBeginAlike) {
  // Eight words: a chance of about 1 in 10^14 for any pair of these.
  std::set<std::string> beginnings;
  for (int64_t i = 0; i < 1000; ++i) beginnings.insert(PromptText(1, i, 8));
  EXPECT_EQ(beginnings.size(), 1000U);
}

}  // namespace
}  // namespace remontoir
