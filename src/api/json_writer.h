// Writes compact JSON text from left to right; strings come out as valid UTF-8 whatever goes in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace remontoir {

// Commas are placed by the writer; the caller pairs Begin and End.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view name);

  // Invalid UTF-8 parts become U+FFFD.
  JsonWriter& String(std::string_view text);
  JsonWriter& StringOrNull(std::string_view text) { return text.empty() ? Null() : String(text); }
  JsonWriter& Int(int64_t number);
  // The shortest text that reads back as the same float; what isn't finite becomes -9999.
  JsonWriter& Float(float number);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  // A value that is JSON already.
  JsonWriter& Raw(std::string_view json);

  std::string Take() { return std::move(text_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace remontoir
