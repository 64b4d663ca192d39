// Escapes and shortens text that came from a file.
#include "formats/printable.h"

#include "text/utf8.h"

namespace remontoir {
namespace {

constexpr size_t kNameCharactersMax = 80;

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

void AppendEscape(char32_t control, std::string& text) {
  switch (control) {
    case U'\n': text += "\\n"; return;
    case U'\r': text += "\\r"; return;
    case U'\t': text += "\\t"; return;
    default: break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  text += "\\x";
  text += kDigits[control >> 4];
  text += kDigits[control & 15];
}

}  // namespace

std::string Printable(std::string_view text, size_t characters_max) {
  std::string printable;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == characters_max) return printable + "…";
    const Utf8Character character = DecodeUtf8(text);
    if (IsControl(character.code_point)) {
      AppendEscape(character.code_point, printable);
    } else {
      AppendUtf8(character.code_point, printable);
    }
    text.remove_prefix(character.length);
  }
  return printable;
}

std::string Quoted(std::string_view name) {
  return "'" + Printable(name, kNameCharactersMax) + "'";
}

}  // namespace remontoir
