// Reads written values as numbers, truths, words, sizes and lists.
#include "config/value.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

namespace remontoir {
namespace {

constexpr size_t kShownMax = 60;

std::string Found(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::kEmpty: return "nothing";
    case ConfigValue::Kind::kList: return "a list";
    case ConfigValue::Kind::kOther: return "a mapping";
    case ConfigValue::Kind::kScalar: break;
  }
  if (value.text.size() > kShownMax) return '"' + value.text.substr(0, kShownMax) + "…\"";
  return '"' + value.text + '"' + (value.quoted ? " in quotes" : "");
}

Status Wants(const std::string& what, const ConfigValue& value) {
  return InvalidArgument("wants " + what + ", not " + Found(value));
}

bool IsPlain(const ConfigValue& value) {
  return value.kind == ConfigValue::Kind::kScalar && !value.quoted && !value.text.empty();
}

template <class T>
std::optional<T> Parse(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Shown(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

// Bytes of a unit's name in lower case; 0 when there is no such unit.
double UnitBytes(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"b", 1},    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30},
      {"tib", 0x1p40}, {"kb", 1e3}, {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
  };
  for (const auto& [name, bytes] : kUnits) {
    if (name == unit) return bytes;
  }
  return 0;
}

}  // namespace

ConfigValue ScalarValue(std::string text) {
  ConfigValue value;
  value.text = std::move(text);
  return value;
}

Result<int64_t> ReadInteger(const ConfigValue& value, int64_t min, int64_t max) {
  const std::optional<int64_t> number = IsPlain(value) ? Parse<int64_t>(value.text) : std::nullopt;
  if (!number || *number < min || *number > max) {
    return Wants("a whole number from " + std::to_string(min) + " to " + std::to_string(max),
                 value);
  }
  return *number;
}

Result<double> ReadReal(const ConfigValue& value, double min, double max) {
  const std::optional<double> number = IsPlain(value) ? Parse<double>(value.text) : std::nullopt;
  if (!number || !(*number >= min && *number <= max)) {
    return Wants("a number from " + Shown(min) + " to " + Shown(max), value);
  }
  return *number;
}

Result<bool> ReadBoolean(const ConfigValue& value) {
  if (IsPlain(value)) {
    if (value.text == "true") return true;
    if (value.text == "false") return false;
  }
  return Wants("true or false", value);
}

Result<std::string> ReadText(const ConfigValue& value) {
  if (value.kind != ConfigValue::Kind::kScalar || value.text.empty()) return Wants("text", value);
  return value.text;
}

Result<size_t> ReadChoice(const ConfigValue& value, std::span<const std::string_view> words) {
  std::string wanted = "one of ";
  for (size_t i = 0; i < words.size(); ++i) {
    if (value.kind == ConfigValue::Kind::kScalar && value.text == words[i]) return i;
    if (i > 0) wanted += ", ";
    wanted += words[i];
  }
  return Wants(wanted, value);
}

Result<int64_t> ReadMemorySize(const ConfigValue& value) {
  constexpr double kBytesMax = 0x1p60;
  const Status error = Wants("a memory size such as 512 MiB or 2 GiB, or auto", value);
  if (value.kind != ConfigValue::Kind::kScalar) return error;
  const std::string_view text = value.text;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = Parse<double>(text.substr(0, digits));
  std::string unit;
  for (const char c : text.substr(digits)) {
    if (c != ' ') unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  }
  const double unit_bytes = UnitBytes(unit);
  if (!number || unit_bytes == 0) return error;
  const double bytes = std::floor(*number * unit_bytes);
  if (!(bytes >= 1 && bytes <= kBytesMax)) return error;
  return static_cast<int64_t>(bytes);
}

Result<std::vector<std::string>> ReadTextList(const ConfigValue& value) {
  std::vector<std::string> texts;
  if (value.kind != ConfigValue::Kind::kList) {
    REM_ASSIGN_OR_RETURN(texts.emplace_back(), ReadText(value));
    return texts;
  }
  for (const ConfigValue& item : value.items) {
    REM_ASSIGN_OR_RETURN(texts.emplace_back(), ReadText(item));
  }
  return texts;
}

Result<std::vector<int64_t>> ReadIntegerList(const ConfigValue& value, int64_t min, int64_t max) {
  std::vector<int64_t> numbers;
  if (value.kind != ConfigValue::Kind::kList) {
    REM_ASSIGN_OR_RETURN(numbers.emplace_back(), ReadInteger(value, min, max));
    return numbers;
  }
  for (const ConfigValue& item : value.items) {
    REM_ASSIGN_OR_RETURN(numbers.emplace_back(), ReadInteger(item, min, max));
  }
  return numbers;
}

bool IsAuto(const ConfigValue& value) {
  return value.kind == ConfigValue::Kind::kScalar && value.text == "auto";
}

}  // namespace remontoir
