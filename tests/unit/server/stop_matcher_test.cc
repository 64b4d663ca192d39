// Stop strings in text that comes in pieces.
#include "server/stop_matcher.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

struct Case {
  std::vector<std::string> stops;
  std::string text;
  std::string passed;
  bool stopped;
};

const Case kCases[] = {
    {{}, "plain text", "plain text", false},
    {{"END"}, "one END two", "one ", true},
    {{"END"}, "one EN", "one EN", false},
    {{"END"}, "ENEND", "EN", true},
    {{"aab"}, "aaab", "a", true},
    {{"abab"}, "abaabab!", "aba", true},
    {{"xyz", "y"}, "axyz", "ax", true},  // "y" is complete first
    {{"b", "abc"}, "zabc", "za", true},
    {{"\n\n"}, "a\nb\n\nc", "a\nb", true},
    {{"\xe2\x82\xac"}, "5 \xe2\x82\xac", "5 ", true},
    {{"stop"}, "stop", "", true},
};

TEST(StopMatcher, PassesWhatStandsBeforeTheFirstStopString) {
  for (const Case& test : kCases) {
    StopMatcher matcher(test.stops);
    std::string passed;
    for (const char c : test.text) passed += matcher.Push({&c, 1});
    passed += matcher.Finish();
    EXPECT_EQ(passed, test.passed) << test.text;
    EXPECT_EQ(matcher.stopped(), test.stopped) << test.text;
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopMatcher matcher({"END", "\n\nUser:"});
  EXPECT_EQ(matcher.Push("abc"), "abc");
  EXPECT_EQ(matcher.Push("dE"), "d");
  EXPECT_EQ(matcher.Push("x"), "Ex");
  EXPECT_EQ(matcher.Push("y\n"), "y");
  EXPECT_EQ(matcher.Push("\nUse"), "");
  EXPECT_EQ(matcher.Push("d"), "\n\nUsed");
}

TEST(StopMatcher, StaysSilentOnceStopped) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.Push("a.b"), "a");
  EXPECT_EQ(matcher.Push("c"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

}  // namespace
}  // namespace remontoir
