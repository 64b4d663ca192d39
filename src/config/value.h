// A value as it was written in YAML or on the command line, and its reading as a type within
// bounds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

struct ConfigValue {
  enum class Kind { kEmpty, kScalar, kList, kOther };
  Kind kind = Kind::kScalar;
  std::string text;                // of a scalar
  bool quoted = false;             // a quoted scalar is text, whatever it looks like
  std::vector<ConfigValue> items;  // of a list
};

ConfigValue ScalarValue(std::string text);

// Errors say what is wanted and what was found: `wants a whole number from 1 to 64, not "many"`.
Result<int64_t> ReadInteger(const ConfigValue& value, int64_t min, int64_t max);
Result<double> ReadReal(const ConfigValue& value, double min, double max);
Result<bool> ReadBoolean(const ConfigValue& value);
Result<std::string> ReadText(const ConfigValue& value);
// The index of the word in `words`.
Result<size_t> ReadChoice(const ConfigValue& value, std::span<const std::string_view> words);
// Bytes of "2 GiB", "512MiB", "1.5 GiB" or a plain number of bytes; at least 1.
Result<int64_t> ReadMemorySize(const ConfigValue& value);
// A list, or one scalar for a list of one.
Result<std::vector<std::string>> ReadTextList(const ConfigValue& value);
Result<std::vector<int64_t>> ReadIntegerList(const ConfigValue& value, int64_t min, int64_t max);

// Whether the value is the plain word `auto`.
bool IsAuto(const ConfigValue& value);

}  // namespace remontoir
