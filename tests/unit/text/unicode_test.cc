// Facts about Unicode's data as we use it.
#include "text/unicode.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(Unicode, ComposesToNfc) {
  const struct {
    std::string_view text;
    std::string_view composed;
  } cases[] = {
      {"", ""},
      {"plain caf\u00E9", "plain caf\u00E9"},
      {"e\u0301", "\u00E9"},
      {"\u212B", "\u00C5"},               // a singleton
      {"e\u0301\u0323", "\u1EB9\u0301"},  // marks change places first
      {"e\u0323\u0301", "\u1EB9\u0301"},
      {"\u1100\u1161\u11A8", "\uAC01"},               // Hangul
      {"\u0958", "\u0915\u093C"},                     // excluded from composition
      {"\u0301x", "\u0301x"},                         // a mark with nothing before
      {"a\u0300\u0300\u0301", "\u00E0\u0300\u0301"},  // blocked by an equal class
      {"\uFF21\uFB01", "\uFF21\uFB01"},               // compatibility forms stay
  };
  for (const auto& c : cases) EXPECT_EQ(ComposeNfc(c.text), c.composed);
}

TEST(Unicode, ComposesLongRunsOfMarksInTime) {
  std::string text = "e";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0323";
  const std::string composed = ComposeNfc(text);  // quadratic reordering would take minutes
  EXPECT_EQ(composed.substr(0, 5), "\u1EB9\u0323");
}

TEST(Unicode, KnowsKindsAndCase) {
  EXPECT_EQ(ToUpper(U'\u00E9'), U'\u00C9');
  EXPECT_EQ(ToLower(U'\u0416'), U'\u0436');
  EXPECT_TRUE(IsLetter(U'\u4F60'));
  EXPECT_TRUE(IsDecimalDigit(U'\u0663'));
  EXPECT_TRUE(IsNumeric(U'\u00BD'));
  EXPECT_FALSE(IsDecimalDigit(U'\u00BD'));
  for (char32_t space : {U' ', U'\n', U'\u00A0', U'\u3000', U'\u2028', U'\x85'}) {
    EXPECT_TRUE(IsSpace(space)) << static_cast<unsigned>(space);
  }
  EXPECT_FALSE(IsSpace(U'\u180E'));
  EXPECT_FALSE(IsSpace(U'\u200B'));
  EXPECT_TRUE(IsPrintable(U' '));
  EXPECT_FALSE(IsPrintable(U'\u00A0'));
  EXPECT_FALSE(IsPrintable(U'\u200D'));
}

}  // namespace
}  // namespace remontoir
