// Facts about needles: names and codes of a seed, and where sentences stand in a prompt.
#include "eval/needles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "eval/needle_trials.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MakeNeedles, HaveKindsNamesAndFiveDigitsOfTheirOwn) {
  std::set<std::string> kinds;
  std::set<std::string> names;
  std::set<std::string> codes;
  for (const Needle& needle : MakeNeedles(kNeedlesPerPromptMax, 1)) {
    kinds.insert(needle.kind);
    names.insert(needle.name);
    codes.insert(needle.code);
    EXPECT_EQ(needle.code.size(), 5U);
    EXPECT_EQ(needle.code.find_first_not_of("0123456789"), std::string::npos);
  }
  EXPECT_EQ(std::ssize(kinds), kNeedlesPerPromptMax);
  EXPECT_EQ(std::ssize(names), kNeedlesPerPromptMax);
  EXPECT_EQ(std::ssize(codes), kNeedlesPerPromptMax);
}

TEST(MakeNeedles, AreTheSameForASeedAndOthersForAnother) {
  const Needle first = MakeNeedles(3, 7)[2];
  const Needle again = MakeNeedles(3, 7)[2];
  EXPECT_EQ(first.name, again.name);
  EXPECT_EQ(first.code, again.code);
  EXPECT_NE(first.code, MakeNeedles(3, 8)[2].code);
}

TEST(Needle, StatesItsCodeTwiceAndAsksWithoutIt) {
  const Needle needle = {"badge number", "Oslo", "12345"};
  const std::string sentence = needle.Sentence();
  const size_t first = sentence.find(needle.code);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(sentence.find(needle.code, first + 1), std::string::npos);
  EXPECT_THAT(needle.Question(), HasSubstr("badge number of Oslo"));
  EXPECT_EQ(needle.Question().find(needle.code), std::string::npos);
}

std::vector<int32_t> Text(int32_t count) {
  std::vector<int32_t> text(static_cast<size_t>(count));
  std::iota(text.begin(), text.end(), 0);
  return text;
}

// Sentences are runs of -1 and -2; every tenth token ends a line.
TEST(MakeNeedlePrompt, PutsSentencesBetweenLinesAtTheirDepths) {
  const std::vector<int32_t> text = Text(400);
  const std::vector<std::vector<int32_t>> sentences = {{-1, -1}, {-2, -2, -2}};
  const NeedlePrompt prompt =
      MakeNeedlePrompt(text, sentences, 400, 300, [](int32_t token) { return token % 10 == 9; });
  // 300 - 5 - 64 tokens are spread over: a quarter is 57, three quarters 173.
  EXPECT_THAT(prompt.depths, ElementsAre(60, 182));
  ASSERT_EQ(prompt.tokens.size(), 400U);
  std::vector<int32_t> expected = text;
  expected.insert(expected.begin() + 180, {-2, -2, -2});
  expected.insert(expected.begin() + 60, {-1, -1});
  expected.resize(400);
  EXPECT_EQ(prompt.tokens, expected);
}

TEST(MakeNeedlePrompt, WithoutLinesSentencesStandWhereTheirDepthFalls) {
  const std::vector<std::vector<int32_t>> sentences = {{-1}, {-1}, {-1}, {-1}};
  const NeedlePrompt prompt =
      MakeNeedlePrompt(Text(100), sentences, 100, 80, [](int32_t) { return false; });
  EXPECT_THAT(prompt.depths, ElementsAre(1, 5, 9, 13));
}

TEST(MakeNeedlePrompt, SentencesKeepTheirOrderWhereLinesAreFarApart) {
  const std::vector<std::vector<int32_t>> sentences = {{-1}, {-2}, {-3}};
  const NeedlePrompt prompt =
      MakeNeedlePrompt(Text(200), sentences, 200, 150, [](int32_t token) { return token == 70; });
  EXPECT_THAT(prompt.depths, ElementsAre(71, 72, 73));
  EXPECT_EQ(prompt.tokens[71], -1);
  EXPECT_EQ(prompt.tokens[72], -2);
  EXPECT_EQ(prompt.tokens[73], -3);
}

TEST(NeedleReport, CountsWhatIsFoundAndKept) {
  NeedleReport report;
  const struct {
    bool exact;
    bool sparse;
  } cases[] = {{true, true}, {true, false}, {false, true}, {false, false}, {true, true}};
  for (const auto& one : cases) {
    report.trials.push_back({.exact = {0, one.exact}, .sparse = {0, one.sparse}});
  }
  EXPECT_EQ(report.found_exact(), 3);
  EXPECT_EQ(report.kept(), 2);
  EXPECT_TRUE(report.trials[1].missed());
  EXPECT_FALSE(report.trials[2].missed());
}

TEST(NeedlePrompts, HaveSixteenEachAtMost) {
  EXPECT_EQ(NeedlePrompts(0), 0);
  EXPECT_EQ(NeedlePrompts(16), 1);
  EXPECT_EQ(NeedlePrompts(17), 2);
}

}  // namespace
}  // namespace remontoir
