// UTF-8 decoding by the table of well-formed sequences of the Unicode Standard (table 3-7).
#include "text/utf8.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace remontoir {
namespace {

// What a lead byte promises: the length, and the range of the second byte (which rules out
// overlong forms, surrogates and values above U+10FFFF).
struct Lead {
  uint8_t length;  // 0: not a lead byte
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes at the front that fit the lead byte's promise (at least 1).
size_t FittingBytes(std::string_view text, Lead lead) {
  size_t fitting = 1;
  uint8_t low = lead.second_min;
  uint8_t high = lead.second_max;
  while (fitting < lead.length && fitting < text.size()) {
    const auto byte = static_cast<uint8_t>(text[fitting]);
    if (byte < low || byte > high) break;
    low = 0x80;
    high = 0xBF;
    ++fitting;
  }
  return fitting;
}

// Length of the ASCII run at the front.
size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Character DecodeUtf8(std::string_view text) {
  REM_CHECK(!text.empty(), "no character to decode");
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = LeadOf(first);
  if (lead.length == 0) return {kReplacementCharacter, 1, false};
  const size_t fitting = FittingBytes(text, lead);
  if (fitting < lead.length) return {kReplacementCharacter, fitting, false};
  char32_t code_point = first & (0x7Fu >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    code_point = code_point << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  }
  return {code_point, lead.length, true};
}

void AppendUtf8(char32_t code_point, std::string& text) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool IsValidUtf8(std::string_view text) {
  while (true) {
    text.remove_prefix(AsciiPrefix(text));
    if (text.empty()) return true;
    const Utf8Character character = DecodeUtf8(text);
    if (!character.valid) return false;
    text.remove_prefix(character.length);
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string replaced;
  replaced.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = DecodeUtf8(text);
    if (character.valid) {
      replaced.append(text.substr(0, character.length));
    } else {
      AppendUtf8(kReplacementCharacter, replaced);
    }
    text.remove_prefix(character.length);
  }
  return replaced;
}

size_t CompleteUtf8Prefix(std::string_view text) {
  const size_t tail_max = text.size() < 3 ? text.size() : 3;
  for (size_t back = 1; back <= tail_max; ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const Lead lead = LeadOf(static_cast<uint8_t>(tail[0]));
    if (lead.length > back && FittingBytes(tail, lead) == back) return text.size() - back;
  }
  return text.size();
}

size_t CountUtf8(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(DecodeUtf8(text).length);
    ++count;
  }
  return count;
}

}  // namespace remontoir
