// Facts about UTF-8: decoding, replacement and stream cuts.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace remontoir {
namespace {

TEST(Utf8, ReplacesEachMaximalInvalidPart) {
  const struct {
    std::string bytes;
    std::string replaced;
  } cases[] = {
      {"plain", "plain"},
      {"\x80", "\uFFFD"},
      {"a\xC3", "a\uFFFD"},
      {"\xC3(", "\uFFFD("},
      {"\xE2\x82(", "\uFFFD("},
      {"\xF0\x9F\x98", "\uFFFD"},
      {"\xF0\x9F\x98z\xF0\x9F", "\uFFFDz\uFFFD"},
      {"\xC0\x80", "\uFFFD\uFFFD"},                      // overlong
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},            // overlong: the lead byte stands alone
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // above U+10FFFF
      {"\xFF\xFE", "\uFFFD\uFFFD"},
      {"\xF1\x80\x80\xE1\x80\xC2"
       "b\x80",
       "\uFFFD\uFFFD\uFFFDb\uFFFD"},
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
      {std::string("\0x", 2), std::string("\0x", 2)},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ReplaceInvalidUtf8(c.bytes), c.replaced);
    EXPECT_EQ(IsValidUtf8(c.bytes), c.bytes == c.replaced);
    EXPECT_EQ(CountUtf8(c.bytes), CountUtf8(c.replaced));
  }
}

TEST(Utf8, EveryScalarValueSurvivesEncodingAndDecoding) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point == 0xD800) code_point = 0xE000;
    std::string text;
    AppendUtf8(code_point, text);
    const Utf8Character character = DecodeUtf8(text);
    ASSERT_TRUE(character.valid);
    ASSERT_EQ(character.code_point, code_point);
    ASSERT_EQ(character.length, text.size());
  }
}

TEST(Utf8, StreamPrefixHoldsBackOnlyUnfinishedCharacters) {
  const struct {
    std::string_view text;
    size_t complete;
  } cases[] = {
      {"", 0},
      {"abc", 3},
      {"a\xC3", 1},
      {"a\xC3\xA9", 3},
      {"\xE2\x82", 0},
      {"a\xF0\x9F\x98", 1},
      {"a\xF0\x9F\x98\x80", 5},
      {"a\xF0\x80\x80", 4},  // can never become valid: passed on, to be replaced
      {"a\xED\xA0", 3},
      {"a\x80\x80\x80", 4},
      {"a\xFF", 2},
  };
  for (const auto& c : cases) EXPECT_EQ(CompleteUtf8Prefix(c.text), c.complete) << c.text;
}

TEST(Utf8, ValidityLooksPastLongAsciiRuns) {
  std::string text(1000, 'a');
  EXPECT_TRUE(IsValidUtf8(text));
  text[997] = '\x80';
  EXPECT_FALSE(IsValidUtf8(text));
}

}  // namespace
}  // namespace remontoir
