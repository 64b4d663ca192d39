// Text operations by byte positions of characters.
#include "tokenizer/jinja_strings.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

bool IsLineEnd(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// Begin of the character that ends at `end`.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

Status CheckParts(const std::vector<SpanText>& parts) {
  if (parts.size() <= kTextPartsMax) return Status::Ok();
  return ResourceExhausted("chat template: a text splits into too many parts");
}

}  // namespace

SpanText StripText(const SpanText& text, const SpanText* characters, bool left, bool right) {
  const std::string_view bytes = text.text();
  const auto strips = [&](size_t begin, size_t end) {
    const std::string_view character = bytes.substr(begin, end - begin);
    if (characters == nullptr) return IsSpace(DecodeUtf8(character).code_point);
    return characters->text().find(character) != std::string::npos;
  };
  size_t begin = 0;
  size_t end = bytes.size();
  while (left && begin < end) {
    const size_t next = begin + DecodeUtf8(bytes.substr(begin)).length;
    if (!strips(begin, next)) break;
    begin = next;
  }
  while (right && begin < end) {
    const size_t previous = CharacterBefore(bytes, end);
    if (!strips(previous, end)) break;
    end = previous;
  }
  return text.Substring(begin, end);
}

SpanText MapCase(const SpanText& text, CaseMap map) {
  const std::string_view bytes = text.text();
  SpanText mapped;
  bool begins_word = true;  // no cased letter before
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Character character = DecodeUtf8(bytes.substr(at));
    const char32_t c = character.code_point;
    char32_t to = c;
    switch (map) {
      case CaseMap::kUpper: to = ToUpper(c); break;
      case CaseMap::kLower: to = ToLower(c); break;
      case CaseMap::kCapitalized: to = at == 0 ? ToTitle(c) : ToLower(c); break;
      case CaseMap::kTitle: to = begins_word ? ToTitle(c) : ToLower(c); break;
      case CaseMap::kSwapped: to = IsUpper(c) ? ToLower(c) : ToUpper(c); break;
    }
    begins_word = !IsUpper(c) && !IsLower(c);
    std::string encoded;
    if (c == U'\u00DF' && (map == CaseMap::kUpper || map == CaseMap::kSwapped)) {
      encoded = "SS";  // the one letter in use that grows
    } else {
      AppendUtf8(to, encoded);
    }
    mapped.Append(encoded, text.OriginAt(at));
    at += character.length;
  }
  return mapped;
}

SpanText ReplaceText(const SpanText& text, const SpanText& old, const SpanText& replacement,
                     int64_t count) {
  const std::string_view bytes = text.text();
  SpanText replaced;
  size_t copied = 0;
  for (size_t at = 0; count != 0; --count) {
    const size_t found = bytes.find(old.text(), at);
    if (found == std::string_view::npos) break;
    replaced.Append(text, copied, found);
    replaced.Append(replacement);
    copied = found + old.size();
    at = copied;
    if (!old.empty()) continue;
    if (at == bytes.size()) break;  // an empty text is found between all characters
    at += DecodeUtf8(bytes.substr(at)).length;
  }
  replaced.Append(text, copied, bytes.size());
  return replaced;
}

Result<std::vector<SpanText>> SplitText(const SpanText& text, std::string_view separator,
                                        int64_t count) {
  const std::string_view bytes = text.text();
  std::vector<SpanText> parts;
  size_t begin = 0;
  for (; count != 0; --count) {
    const size_t found = bytes.find(separator, begin);
    if (found == std::string_view::npos) break;
    REM_RETURN_IF_ERROR(CheckParts(parts));
    parts.push_back(text.Substring(begin, found));
    begin = found + separator.size();
  }
  parts.push_back(text.Substring(begin, bytes.size()));
  return parts;
}

Result<std::vector<SpanText>> SplitTextFromEnd(const SpanText& text, std::string_view separator,
                                               int64_t count) {
  const std::string_view bytes = text.text();
  std::vector<SpanText> parts;
  size_t end = bytes.size();
  for (; count != 0; --count) {
    const size_t found = bytes.substr(0, end).rfind(separator);
    if (found == std::string_view::npos) break;
    REM_RETURN_IF_ERROR(CheckParts(parts));
    parts.push_back(text.Substring(found + separator.size(), end));
    end = found;
  }
  parts.push_back(text.Substring(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<std::vector<SpanText>> SplitAtSpaces(const SpanText& text, int64_t count) {
  const std::string_view bytes = text.text();
  std::vector<SpanText> parts;
  size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < bytes.size()) {
      const Utf8Character character = DecodeUtf8(bytes.substr(at));
      if (IsSpace(character.code_point) != spaces) return;
      at += character.length;
    }
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const size_t begin = at;
    if (count-- == 0) {
      parts.push_back(text.Substring(begin, bytes.size()));
      break;
    }
    skip(false);
    REM_RETURN_IF_ERROR(CheckParts(parts));
    parts.push_back(text.Substring(begin, at));
  }
  return parts;
}

Result<std::vector<SpanText>> SplitLines(const SpanText& text, bool keep_ends) {
  const std::string_view bytes = text.text();
  std::vector<SpanText> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Character character = DecodeUtf8(bytes.substr(at));
    size_t end = at + character.length;
    if (IsLineEnd(character.code_point)) {
      if (character.code_point == '\r' && bytes.substr(end).starts_with('\n')) ++end;
      REM_RETURN_IF_ERROR(CheckParts(lines));
      lines.push_back(text.Substring(begin, keep_ends ? end : at));
      begin = end;
    }
    at = end;
  }
  if (begin < bytes.size()) lines.push_back(text.Substring(begin, bytes.size()));
  return lines;
}

}  // namespace remontoir
