// Unicode's data comes from utf8proc; the reordering of marks is ours, since a long run of marks
// must not take quadratic time.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

constexpr char32_t kFirstDecomposable = 0xC0;

// Below U+0300, whose lead byte is 0xCC, every character is composed and none combines.
bool NeedsNoComposing(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char byte) { return static_cast<unsigned char>(byte) >= 0xCC; });
}

int CombiningClass(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

void AppendDecomposed(char32_t c, std::vector<utf8proc_int32_t>& characters) {
  if (c < kFirstDecomposable) {
    characters.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  utf8proc_int32_t parts[8];
  int last_boundary_class = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, std::size(parts),
                              UTF8PROC_DECOMPOSE, &last_boundary_class);
  REM_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(std::size(parts)),
            "a character decomposes into too many");
  characters.insert(characters.end(), parts, parts + count);
}

// Sorts every run of marks by combining class, keeping the order of equals.
void ReorderMarks(std::vector<utf8proc_int32_t>& characters) {
  for (auto begin = characters.begin(); begin != characters.end();) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, characters.end(),
                                  [](utf8proc_int32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

}  // namespace

std::string ComposeNfc(std::string_view text) {
  if (NeedsNoComposing(text)) return std::string(text);
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Character character = DecodeUtf8(rest);
    AppendDecomposed(character.code_point, characters);
    rest.remove_prefix(character.length);
  }
  ReorderMarks(characters);
  const auto size = static_cast<utf8proc_ssize_t>(characters.size());
  const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
      characters.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  REM_CHECK(composed >= 0 && composed <= size, "composing can't fail on scalar values");
  std::string result;
  result.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < composed; ++i) {
    AppendUtf8(static_cast<char32_t>(characters[i]), result);
  }
  return result;
}

char32_t ToUpper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t ToLower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t ToTitle(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

bool IsUpper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsLower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }

bool IsLetter(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimalDigit(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  if (c == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

}  // namespace remontoir
