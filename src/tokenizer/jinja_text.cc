// One walk over a value each for str, repr and JSON.
#include "tokenizer/jinja_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/unicode.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

// Appends a string with some of its characters replaced. escape(code_point, out) fills `out` and
// returns true for those; the rest is copied in whole stretches, with its origin.
template <class Escape>
void AppendEscaped(const SpanText& text, Escape escape, SpanText& out) {
  const std::string_view bytes = text.text();
  size_t copied = 0;
  std::string escaped;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Character character = DecodeUtf8(bytes.substr(i));
    escaped.clear();
    if (escape(character.code_point, escaped)) {
      out.Append(text, copied, i);
      out.Append(escaped, Origin::kTemplate);
      copied = i + character.length;
    }
    i += character.length;
  }
  out.Append(text, copied, bytes.size());
}

std::string Hex(std::string_view prefix, int digits, char32_t code_point) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*x", digits, static_cast<unsigned>(code_point));
  return std::string(prefix) + text;
}

void AppendQuoted(const SpanText& text, SpanText& out) {
  const bool single = text.text().find('\'') != std::string::npos;
  const bool both = single && text.text().find('"') != std::string::npos;
  const char quote = single && !both ? '"' : '\'';
  const std::string_view marks(&quote, 1);
  out.Append(marks, Origin::kTemplate);
  AppendEscaped(
      text,
      [quote](char32_t c, std::string& escaped) {
        if (c == '\n')
          escaped = "\\n";
        else if (c == '\r')
          escaped = "\\r";
        else if (c == '\t')
          escaped = "\\t";
        else if (c == '\\')
          escaped = "\\\\";
        else if (c == static_cast<char32_t>(quote))
          escaped = std::string("\\") + quote;
        else if (IsPrintable(c))
          return false;
        else if (c < 0x100)
          escaped = Hex("\\x", 2, c);
        else if (c < 0x10000)
          escaped = Hex("\\u", 4, c);
        else
          escaped = Hex("\\U", 8, c);
        return true;
      },
      out);
  out.Append(marks, Origin::kTemplate);
}

void AppendJsonString(const SpanText& text, bool ascii_only, SpanText& out) {
  out.Append("\"", Origin::kTemplate);
  AppendEscaped(
      text,
      [ascii_only](char32_t c, std::string& escaped) {
        if (c == '"')
          escaped = "\\\"";
        else if (c == '\\')
          escaped = "\\\\";
        else if (c == '\n')
          escaped = "\\n";
        else if (c == '\r')
          escaped = "\\r";
        else if (c == '\t')
          escaped = "\\t";
        else if (c == '\b')
          escaped = "\\b";
        else if (c == '\f')
          escaped = "\\f";
        else if (c < 0x20 || (ascii_only && c >= 0x80 && c < 0x10000))
          escaped = Hex("\\u", 4, c);
        else if (!ascii_only || c < 0x80)
          return false;
        else
          escaped = Hex("\\u", 4, 0xD800 + ((c - 0x10000) >> 10)) +
                    Hex("\\u", 4, 0xDC00 + ((c - 0x10000) & 0x3FF));
        return true;
      },
      out);
  out.Append("\"", Origin::kTemplate);
}

// Numbers, booleans and what has no better text.
std::string PlainText(const JinjaValue& value) {
  if (value.IsBool()) return value.boolean() ? "True" : "False";
  if (value.IsInteger()) return std::to_string(value.integer());
  if (value.IsFloat()) return JinjaFloatText(*value.AsDouble());
  if (value.IsNone()) return "None";
  if (value.IsUndefined()) return "Undefined";
  return "<" + std::string(value.TypeName()) + ">";
}

class JsonWriter {
 public:
  JsonWriter(JinjaRuntime& runtime, const JinjaJsonStyle& style, SpanText& out)
      : runtime_(runtime), style_(style), out_(out) {}

  Status Write(const JinjaValue& value) {
    const JinjaRuntime::Nesting nesting(runtime_);
    REM_RETURN_IF_ERROR(nesting.Check());
    REM_RETURN_IF_ERROR(runtime_.Spend(value.IsString() ? value.string().size() : 0));
    if (value.IsString()) {
      AppendJsonString(value.string(), style_.ascii_only, out_);
    } else if (value.IsList()) {
      return Items(value.items());
    } else if (value.IsMap()) {
      return Members(value.map());
    } else if (value.IsNone()) {
      Put("null");
    } else if (value.IsBool()) {
      Put(value.boolean() ? "true" : "false");
    } else if (value.IsFloat()) {
      Put(FloatText(*value.AsDouble()));
    } else if (value.IsInteger()) {
      Put(PlainText(value));
    } else {
      return InvalidArgument("Object of type " + std::string(value.TypeName()) +
                             " is not JSON serializable");
    }
    return Status::Ok();
  }

 private:
  void Put(std::string_view text) { out_.Append(text, Origin::kTemplate); }

  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return JinjaFloatText(value);
  }

  Status NewLine() {
    if (!style_.indent.has_value()) return Status::Ok();
    REM_RETURN_IF_ERROR(runtime_.Spend(level_ * style_.indent->size()));
    Put("\n");
    for (size_t i = 0; i < level_; ++i) Put(*style_.indent);
    return Status::Ok();
  }

  Status Items(const std::vector<JinjaValue>& items) {
    if (items.empty()) {
      Put("[]");
      return Status::Ok();
    }
    Put("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      REM_RETURN_IF_ERROR(NewLine());
      REM_RETURN_IF_ERROR(Write(items[i]));
    }
    --level_;
    REM_RETURN_IF_ERROR(NewLine());
    Put("]");
    return Status::Ok();
  }

  Status Members(const JinjaMap& map) {
    if (map.size() == 0) {
      Put("{}");
      return Status::Ok();
    }
    std::vector<const JinjaMap::Entry*> entries;
    for (const JinjaMap::Entry& entry : map.entries()) entries.push_back(&entry);
    if (style_.sorted_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->key.IsString() && b->key.IsString() && a->key.text() < b->key.text();
      });
    }
    Put("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) Put(style_.item_separator);
      REM_RETURN_IF_ERROR(NewLine());
      REM_RETURN_IF_ERROR(Key(entries[i]->key));
      Put(style_.key_separator);
      REM_RETURN_IF_ERROR(Write(entries[i]->value));
    }
    --level_;
    REM_RETURN_IF_ERROR(NewLine());
    Put("}");
    return Status::Ok();
  }

  // Keys that are no strings are written as if they were.
  Status Key(const JinjaValue& key) {
    if (key.IsString()) return Write(key);
    Put("\"");
    REM_RETURN_IF_ERROR(Write(key));
    Put("\"");
    return Status::Ok();
  }

  JinjaRuntime& runtime_;
  const JinjaJsonStyle& style_;
  SpanText& out_;
  size_t level_ = 0;
};

}  // namespace

std::string JinjaFloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits that give the value back: "d.ddde±XX".
  char buffer[40];
  const auto written =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string scientific(buffer, written.ptr);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent >= -4 && exponent < 16) {
    const auto fixed =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
    std::string text(buffer, fixed.ptr);
    if (text.find('.') == std::string::npos) text += ".0";
    return text;
  }
  return scientific;  // two digits of exponent at least, as Python has them
}

Status AppendJinjaText(JinjaRuntime& runtime, const JinjaValue& value, SpanText& out) {
  if (value.IsUndefined()) return runtime.Spend();
  if (!value.IsString()) return AppendJinjaRepr(runtime, value, out);
  REM_RETURN_IF_ERROR(runtime.Spend(value.string().size()));
  out.Append(value.string());
  return Status::Ok();
}

Result<SpanText> JinjaText(JinjaRuntime& runtime, const JinjaValue& value) {
  SpanText text;
  REM_RETURN_IF_ERROR(AppendJinjaText(runtime, value, text));
  return text;
}

Status AppendJinjaRepr(JinjaRuntime& runtime, const JinjaValue& value, SpanText& out) {
  const JinjaRuntime::Nesting nesting(runtime);
  REM_RETURN_IF_ERROR(nesting.Check());
  const auto put = [&out](std::string_view text) { out.Append(text, Origin::kTemplate); };
  REM_RETURN_IF_ERROR(runtime.Spend(value.IsString() ? value.string().size() : 0));
  if (value.IsString()) {
    AppendQuoted(value.string(), out);
  } else if (value.IsList()) {
    const std::vector<JinjaValue>& items = value.items();
    put(value.IsTuple() ? "(" : "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(", ");
      REM_RETURN_IF_ERROR(AppendJinjaRepr(runtime, items[i], out));
    }
    put(!value.IsTuple() ? "]" : items.size() == 1 ? ",)" : ")");
  } else if (value.IsMap()) {
    put("{");
    bool first = true;
    for (const JinjaMap::Entry& entry : value.map().entries()) {
      if (!std::exchange(first, false)) put(", ");
      REM_RETURN_IF_ERROR(AppendJinjaRepr(runtime, entry.key, out));
      put(": ");
      REM_RETURN_IF_ERROR(AppendJinjaRepr(runtime, entry.value, out));
    }
    put("}");
  } else {
    put(PlainText(value));
  }
  return Status::Ok();
}

Status AppendJinjaJson(JinjaRuntime& runtime, const JinjaValue& value, const JinjaJsonStyle& style,
                       SpanText& out) {
  return JsonWriter(runtime, style, out).Write(value);
}

}  // namespace remontoir
