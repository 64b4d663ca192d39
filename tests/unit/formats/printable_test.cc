// Facts about text from files on its way to a terminal.
#include "formats/printable.h"

#include <gtest/gtest.h>

namespace remontoir {
namespace {

TEST(Printable, EscapesControlsReplacesInvalidBytesAndShortens) {
  struct Case {
    std::string text;
    std::string expected;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {"plain", "plain"},
           {"h\xc3\xa9llo", "h\xc3\xa9llo"},
           {"a\tb\r\n", "a\\tb\\r\\n"},
           {std::string("nul\0", 4), "nul\\x00"},
           {"\x1b[2J\x7f", "\\x1b[2J\\x7f"},
           {"\xc2\x9b", "\\x9b"},
           {"\xff", "\xef\xbf\xbd"},
           {"0123456789", "0123456789"},
           {"0123456789a", "0123456789…"},
           {"éééééééééé!", "éééééééééé…"},
       }) {
    EXPECT_EQ(Printable(c.text, 10), c.expected);
  }
}

TEST(Printable, QuotedNamesAreShort) {
  EXPECT_EQ(Quoted("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(Quoted(std::string(1000, 'k')), "'" + std::string(80, 'k') + "…'");
}

}  // namespace
}  // namespace remontoir
