// UTF-8: validity, decoding, replacement of invalid parts, and where a stream may be cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace remontoir {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// The character at the front of a text.
struct Utf8Character {
  char32_t code_point = kReplacementCharacter;
  size_t length = 0;   // bytes taken; of an invalid text, its maximal invalid part (at least 1)
  bool valid = false;  // false: code_point is U+FFFD and stands for the invalid part
};

// Decodes the first character of a text that is not empty. Overlong forms, surrogates and values
// above U+10FFFF are invalid. The maximal part is that of the Unicode Standard, section 3.9, which
// is also what the WHATWG decoder replaces.
Utf8Character DecodeUtf8(std::string_view text);

// Appends a code point (a Unicode scalar value) as 1 to 4 bytes.
void AppendUtf8(char32_t code_point, std::string& text);

bool IsValidUtf8(std::string_view text);

// The text with U+FFFD in place of each maximal invalid part.
std::string ReplaceInvalidUtf8(std::string_view text);

// Bytes before a trailing sequence that is valid so far but lacks bytes; the whole size if there is
// none. What a stream may pass on now: the rest (at most 3 bytes) waits for more.
size_t CompleteUtf8Prefix(std::string_view text);

// Number of characters; each maximal invalid part counts as one.
size_t CountUtf8(std::string_view text);

}  // namespace remontoir
