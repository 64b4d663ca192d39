// Formats are read byte by byte; what is filled in keeps its origin.
#include "tokenizer/jinja_format.h"

#include <charconv>
#include <cstdio>
#include <string>

#include "text/utf8.h"
#include "tokenizer/jinja_text.h"

namespace remontoir {
namespace {

constexpr int kWidthMax = 1000;

struct Conversion {
  std::string flags;
  int width = 0;
  int precision = -1;
  char type = 's';
};

// Reads behind a '%'; moves `at` behind the conversion.
Result<Conversion> ReadConversion(std::string_view format, size_t& at) {
  Conversion conversion;
  const auto number = [&](int& value) {
    value = 0;
    while (at < format.size() && format[at] >= '0' && format[at] <= '9' && value <= kWidthMax) {
      value = value * 10 + (format[at++] - '0');
    }
  };
  while (at < format.size() &&
         std::string_view("-+ #0").find(format[at]) != std::string_view::npos) {
    if (conversion.flags.size() < 8) conversion.flags.push_back(format[at]);
    ++at;
  }
  number(conversion.width);
  if (at < format.size() && format[at] == '.') {
    ++at;
    number(conversion.precision);
  }
  if (conversion.width > kWidthMax || conversion.precision > kWidthMax) {
    return InvalidArgument("a format's width is too large");
  }
  if (at >= format.size()) return InvalidArgument("incomplete format");
  conversion.type = format[at++];
  return conversion;
}

// A number by the C library, whose conversions are Python's.
Result<std::string> FormatNumber(const Conversion& conversion, const JinjaValue& value) {
  std::string spec = "%" + conversion.flags;
  if (conversion.width > 0) spec += std::to_string(conversion.width);
  if (conversion.precision >= 0) spec += "." + std::to_string(conversion.precision);
  char text[2 * kWidthMax + 400];
  int length = -1;
  const std::string_view types = "diouxX";
  if (types.find(conversion.type) != std::string_view::npos) {
    std::optional<int64_t> whole = value.AsInteger();
    const std::optional<double> number = value.AsDouble();
    if (!whole.has_value() && number.has_value() && *number > -9e18 && *number < 9e18) {
      whole = static_cast<int64_t>(*number);
    }
    if (!whole.has_value()) {
      return InvalidArgument("%d format: a real number is required, not " +
                             std::string(value.TypeName()));
    }
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    spec += decimal ? "lld" : std::string("ll") + conversion.type;
    length = std::snprintf(text, sizeof text, spec.c_str(), static_cast<long long>(*whole));
  } else {
    const std::optional<double> number = value.AsDouble();
    if (!number.has_value()) {
      return InvalidArgument("must be real number, not " + std::string(value.TypeName()));
    }
    spec += conversion.type;
    length = std::snprintf(text, sizeof text, spec.c_str(), *number);
  }
  if (length < 0 || length >= static_cast<int>(sizeof text)) {
    return InvalidArgument("a formatted number is too long");
  }
  return std::string(text, static_cast<size_t>(length));
}

Status AppendPadded(const Conversion& conversion, SpanText text, SpanText& out) {
  if (conversion.precision >= 0) {
    size_t end = 0;
    for (int i = 0; i < conversion.precision && end < text.size(); ++i) {
      end += DecodeUtf8(std::string_view(text.text()).substr(end)).length;
    }
    text = text.Substring(0, end);
  }
  const size_t length = CountUtf8(text.text());
  const auto width = static_cast<size_t>(conversion.width);
  const std::string padding(width > length ? width - length : 0, ' ');
  const bool left = conversion.flags.find('-') != std::string::npos;
  if (!left) out.Append(padding, Origin::kTemplate);
  out.Append(text);
  if (left) out.Append(padding, Origin::kTemplate);
  return Status::Ok();
}

Status AppendConversion(JinjaRuntime& runtime, const Conversion& conversion,
                        const JinjaValue& value, SpanText& out) {
  if (conversion.type == 's' || conversion.type == 'r') {
    SpanText text;
    REM_RETURN_IF_ERROR(conversion.type == 's' ? AppendJinjaText(runtime, value, text)
                                               : AppendJinjaRepr(runtime, value, text));
    return AppendPadded(conversion, std::move(text), out);
  }
  if (std::string_view("diouxXeEfFgG").find(conversion.type) == std::string_view::npos) {
    return InvalidArgument(std::string("unsupported format character '") + conversion.type + "'");
  }
  REM_ASSIGN_OR_RETURN(const std::string number, FormatNumber(conversion, value));
  out.Append(number, Origin::kTemplate);
  return Status::Ok();
}

}  // namespace

Result<JinjaValue> JinjaPercentFormat(JinjaRuntime& runtime, const SpanText& format,
                                      const std::vector<JinjaValue>& values) {
  REM_RETURN_IF_ERROR(runtime.Spend(format.size()));
  const std::string_view bytes = format.text();
  SpanText out;
  size_t used = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    out.Append(format, at, percent);
    at = percent + 1;
    if (percent == bytes.size()) break;
    REM_RETURN_IF_ERROR(runtime.Spend());
    REM_ASSIGN_OR_RETURN(const Conversion conversion, ReadConversion(bytes, at));
    if (conversion.type == '%') {
      out.Append(format, percent, percent + 1);
      continue;
    }
    if (used == values.size()) return InvalidArgument("not enough arguments for format string");
    REM_RETURN_IF_ERROR(AppendConversion(runtime, conversion, values[used++], out));
  }
  if (used < values.size()) {
    return InvalidArgument("not all arguments converted during string formatting");
  }
  return JinjaValue(std::move(out));
}

Result<JinjaValue> JinjaBraceFormat(JinjaRuntime& runtime, const SpanText& format,
                                    const JinjaArguments& arguments) {
  REM_RETURN_IF_ERROR(runtime.Spend(format.size()));
  const std::string_view bytes = format.text();
  SpanText out;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.Append(format, at, brace);
    at = brace + 1;
    if (brace == bytes.size()) break;
    if (at < bytes.size() && bytes[at] == bytes[brace]) {  // doubled: itself
      out.Append(format, brace, at++);
      continue;
    }
    const size_t end = bytes.find('}', at);
    if (bytes[brace] == '}' || end == std::string_view::npos) {
      return InvalidArgument("single brace in a format string");
    }
    const std::string_view field = bytes.substr(at, end - at);
    at = end + 1;
    size_t place = next;
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), place);
    const bool numbered = !field.empty() && parsed.ptr == field.data() + field.size();
    const JinjaValue* value = field.empty() || numbered
                                  ? arguments.Find(field.empty() ? next++ : place, "")
                                  : arguments.Find(field);
    if (value == nullptr) {
      return InvalidArgument("format has no argument for '{" + std::string(field.substr(0, 40)) +
                             "}'");
    }
    REM_RETURN_IF_ERROR(AppendJinjaText(runtime, *value, out));
  }
  return JinjaValue(std::move(out));
}

}  // namespace remontoir
