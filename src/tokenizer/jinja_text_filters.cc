// Filters on text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text/utf8.h"
#include "tokenizer/jinja_filters.h"
#include "tokenizer/jinja_format.h"
#include "tokenizer/jinja_methods.h"
#include "tokenizer/jinja_operators.h"
#include "tokenizer/jinja_strings.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

using Call = JinjaFilterCall;

constexpr int64_t kDecimalsMax = 300;

// Most text filters take anything as its text.
Result<SpanText> TextOf(const Call& call) { return JinjaText(call.runtime, call.subject); }

Result<JinjaValue> AsText(const Call& call) {
  REM_ASSIGN_OR_RETURN(SpanText text, TextOf(call));
  return JinjaValue(std::move(text));
}

template <CaseMap kMap>
Result<JinjaValue> Case(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  return JinjaValue(MapCase(text, kMap));
}

// Unlike Python's title(), a word begins only behind a blank, a hyphen or an opening bracket.
Result<JinjaValue> Title(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  const std::string_view separators = "-({[< \t\n\r\v\f";
  SpanText title;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.text().find_first_of(separators, begin);
    if (end == begin) {
      end = std::min(text.text().find_first_not_of(separators, begin), text.size());
      title.Append(text, begin, end);
    } else {
      end = std::min(end, text.size());
      title.Append(MapCase(text.Substring(begin, end), CaseMap::kCapitalized));
    }
    begin = end;
  }
  return JinjaValue(std::move(title));
}

Result<JinjaValue> Trim(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  const JinjaValue* characters = call.Find(0, "chars");
  if (characters == nullptr || characters->IsNone()) {
    return JinjaValue(StripText(text, nullptr, true, true));
  }
  if (!characters->IsString()) return call.Error("wants a str");
  return JinjaValue(StripText(text, &characters->string(), true, true));
}

Result<JinjaValue> Replace(const Call& call) {
  REM_ASSIGN_OR_RETURN(SpanText text, TextOf(call));
  return CallJinjaMethod(call.runtime, JinjaValue(std::move(text)), "replace", call.arguments);
}

Result<JinjaValue> Format(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  return JinjaPercentFormat(call.runtime, text, call.arguments.positional);
}

Result<JinjaValue> Center(const Call& call) {
  REM_ASSIGN_OR_RETURN(SpanText text, TextOf(call));
  REM_ASSIGN_OR_RETURN(const int64_t width, call.Whole(0, "width", 80));
  return CallJinjaMethod(call.runtime, JinjaValue(std::move(text)), "center",
                         JinjaArguments{{JinjaValue(width)}, {}});
}

Result<JinjaValue> Indent(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  SpanText indent;
  const JinjaValue* width = call.Find(0, "width");
  if (width != nullptr && width->IsString()) {
    indent = width->string();
  } else {
    REM_ASSIGN_OR_RETURN(const int64_t blanks, call.Whole(0, "width", 4));
    if (blanks > 1000) return call.Error("wants a smaller width");
    indent.Append(std::string(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' '),
                  Origin::kTemplate);
  }
  const bool first = call.Flag(1, "first", false);
  const bool blank = call.Flag(2, "blank", false);
  SpanText ended = text;
  ended.Append("\n", Origin::kTemplate);  // so that a newline at the end shows
  REM_ASSIGN_OR_RETURN(const std::vector<SpanText> lines, SplitLines(ended, false));
  REM_RETURN_IF_ERROR(call.runtime.Spend(lines.size() * indent.size() + text.size()));
  SpanText indented;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) indented.Append("\n", Origin::kTemplate);
    if (i == 0 ? first : (blank || !lines[i].empty())) indented.Append(indent);
    indented.Append(lines[i]);
  }
  return JinjaValue(std::move(indented));
}

Result<JinjaValue> Truncate(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  REM_ASSIGN_OR_RETURN(const int64_t length, call.Whole(0, "length", 255));
  REM_ASSIGN_OR_RETURN(const int64_t leeway, call.Whole(3, "leeway", 5));
  const JinjaValue* end = call.Find(2, "end");
  const SpanText dots =
      end != nullptr && end->IsString() ? end->string() : SpanText("...", Origin::kTemplate);
  const auto dots_length = static_cast<int64_t>(CountUtf8(dots.text()));
  if (length < dots_length || leeway < 0) return call.Error("wants a greater length");
  const auto size = static_cast<int64_t>(CountUtf8(text.text()));
  if (size - leeway <= length) return JinjaValue(text);
  size_t cut = 0;
  for (int64_t i = 0; i < length - dots_length; ++i) {
    cut += DecodeUtf8(std::string_view(text.text()).substr(cut)).length;
  }
  if (!call.Flag(1, "killwords", false)) {
    const size_t blank = text.text().rfind(' ', cut == 0 ? 0 : cut - 1);
    if (blank != std::string::npos && blank < cut) cut = blank;
  }
  SpanText truncated = text.Substring(0, cut);
  truncated.Append(dots);
  return JinjaValue(std::move(truncated));
}

Result<JinjaValue> Escape(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  constexpr struct {
    char character;
    std::string_view entity;
  } kEntities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  SpanText escaped;
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const auto& [character, entity] : kEntities) {
      if (text.text()[i] != character) continue;
      escaped.Append(text, copied, i);
      escaped.Append(entity, Origin::kTemplate);
      copied = i + 1;
    }
  }
  escaped.Append(text, copied, text.size());
  return JinjaValue(std::move(escaped));
}

Result<JinjaValue> WordCount(const Call& call) {
  REM_ASSIGN_OR_RETURN(const SpanText text, TextOf(call));
  REM_ASSIGN_OR_RETURN(const std::vector<SpanText> words, SplitAtSpaces(text, -1));
  return JinjaValue(static_cast<int64_t>(words.size()));
}

Result<JinjaValue> ToJson(const Call& call) {
  JinjaJsonStyle style;
  style.ascii_only = call.Flag(0, "ensure_ascii", false);
  style.sorted_keys = call.Flag(3, "sort_keys", false);
  const JinjaValue* indent = call.Find(1, "indent");
  if (indent != nullptr && !indent->IsNone()) {
    style.item_separator = ",";
    if (indent->IsString()) {
      style.indent = indent->text();
    } else {
      REM_ASSIGN_OR_RETURN(const int64_t blanks, call.Whole(1, "indent", 0));
      if (blanks > 100) return call.Error("wants a smaller indent");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' ');
    }
  }
  const JinjaValue* separators = call.Find(2, "separators");
  if (separators != nullptr && !separators->IsNone()) {
    if (!separators->IsList() || separators->items().size() != 2 ||
        !separators->items()[0].IsString() || !separators->items()[1].IsString()) {
      return call.Error("wants two strings as separators");
    }
    style.item_separator = separators->items()[0].text();
    style.key_separator = separators->items()[1].text();
  }
  SpanText json;
  REM_RETURN_IF_ERROR(AppendJinjaJson(call.runtime, call.subject, style, json));
  return JinjaValue(std::move(json));
}

Result<JinjaValue> Default(const Call& call) {
  const bool falsy_too = call.Flag(1, "boolean", false);
  if (!call.subject.IsUndefined() && (!falsy_too || call.subject.Truth())) return call.subject;
  const JinjaValue* fallback = call.Find(0, "default_value");
  return fallback == nullptr ? JinjaValue::Template("") : *fallback;
}

Result<JinjaValue> Itself(const Call& call) { return call.subject; }

Result<JinjaValue> Absolute(const Call& call) {
  REM_RETURN_IF_ERROR(JinjaDefined(call.subject));
  const std::optional<double> number = call.subject.AsDouble();
  if (!number.has_value()) return call.Error("wants a number");
  return *number < 0 ? JinjaNegate(call.subject) : Result<JinjaValue>(call.subject);
}

// The number that a text spells, blanks around it aside; nullopt if it spells none.
std::optional<double> SpelledNumber(const std::string& text) {
  const SpanText stripped = StripText(SpanText(text, Origin::kTemplate), nullptr, true, true);
  const char* begin = stripped.text().c_str();
  if (*begin == '\0' || std::string_view(begin).find_first_of("xXpP") != std::string_view::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  return *end == '\0' ? std::optional(number) : std::nullopt;
}

Result<JinjaValue> ToInteger(const Call& call) {
  REM_RETURN_IF_ERROR(JinjaDefined(call.subject));
  if (const std::optional<int64_t> whole = call.subject.AsInteger()) return JinjaValue(*whole);
  REM_ASSIGN_OR_RETURN(const int64_t base, call.Whole(1, "base", 10));
  std::optional<double> number = call.subject.AsDouble();
  if (call.subject.IsString()) {
    const SpanText stripped = StripText(call.subject.string(), nullptr, true, true);
    std::string_view digits = stripped.text();
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (base == 16 && (digits.starts_with("0x") || digits.starts_with("0X")))
      digits.remove_prefix(2);
    int64_t whole = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), whole,
                                        base >= 2 && base <= 36 ? static_cast<int>(base) : 10);
    if (parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size())
      return JinjaValue(whole);
    number = SpelledNumber(call.subject.text());
  }
  if (number.has_value() && *number > -9.2e18 && *number < 9.2e18) {
    return JinjaValue(static_cast<int64_t>(*number));
  }
  const JinjaValue* fallback = call.Find(0, "default");
  return fallback == nullptr ? JinjaValue(int64_t{0}) : *fallback;
}

Result<JinjaValue> ToFloat(const Call& call) {
  REM_RETURN_IF_ERROR(JinjaDefined(call.subject));
  std::optional<double> number = call.subject.AsDouble();
  if (call.subject.IsString()) number = SpelledNumber(call.subject.text());
  if (number.has_value()) return JinjaValue(*number);
  const JinjaValue* fallback = call.Find(0, "default");
  return fallback == nullptr ? JinjaValue(0.0) : *fallback;
}

Result<JinjaValue> Round(const Call& call) {
  REM_RETURN_IF_ERROR(JinjaDefined(call.subject));
  REM_ASSIGN_OR_RETURN(const int64_t decimals, call.Whole(0, "precision", 0));
  const std::optional<double> number = call.subject.AsDouble();
  if (!number.has_value()) return call.Error("wants a number");
  if (decimals < 0 || decimals > kDecimalsMax) return call.Error("wants another precision");
  const JinjaValue* method = call.Find(1, "method");
  if (method != nullptr && method->IsString() && method->text() != "common") {
    if (method->text() != "ceil" && method->text() != "floor") {
      return call.Error("knows the methods common, ceil and floor");
    }
    const double scale = std::pow(10.0, static_cast<double>(decimals));
    const double scaled = *number * scale;
    return JinjaValue((method->text() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (!call.subject.IsFloat()) return call.subject;
  char text[2 * kDecimalsMax + 100];  // a double has 309 digits before the point at most
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(decimals), *number);
  return JinjaValue(std::strtod(text, nullptr));
}

constexpr JinjaNamedFilter kFilters[] = {
    {"string", AsText},
    {"upper", Case<CaseMap::kUpper>},
    {"lower", Case<CaseMap::kLower>},
    {"capitalize", Case<CaseMap::kCapitalized>},
    {"title", Title},
    {"trim", Trim},
    {"replace", Replace},
    {"format", Format},
    {"center", Center},
    {"indent", Indent},
    {"truncate", Truncate},
    {"escape", Escape},
    {"e", Escape},
    {"safe", Itself},
    {"wordcount", WordCount},
    {"tojson", ToJson},
    {"default", Default},
    {"d", Default},
    {"abs", Absolute},
    {"int", ToInteger},
    {"float", ToFloat},
    {"round", Round},
};

}  // namespace

JinjaFilter FindJinjaTextFilter(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFilters), std::end(kFilters),
                   [name](const JinjaNamedFilter& named) { return named.name == name; });
  return found == std::end(kFilters) ? nullptr : found->filter;
}

}  // namespace remontoir
