// Escapes and numbers of JSON text.
#include "api/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace remontoir {
namespace {

void AppendEscaped(std::string& out, std::string_view text) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
          out += "\\u00";
          out += kHexDigits[byte >> 4];
          out += kHexDigits[byte & 15];
        } else {
          out += c;
        }
    }
  }
}

}  // namespace

void JsonWriter::Separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  String(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  text_ += '"';
  if (IsValidUtf8(text)) {
    AppendEscaped(text_, text);
  } else {
    AppendEscaped(text_, ReplaceInvalidUtf8(text));
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t number) { return Raw(std::to_string(number)); }

JsonWriter& JsonWriter::Float(float number) {
  if (!std::isfinite(number)) return Raw("-9999.0");
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  return Raw({text.data(), static_cast<size_t>(end.ptr - text.data())});
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  text_ += json;
  return *this;
}

}  // namespace remontoir
