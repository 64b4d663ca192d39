// Parses and writes the five-digit endings of split models.
#include "hub/split_name.h"

#include <charconv>
#include <cstdio>

#include "hub/ascii.h"

namespace remontoir {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kPattern = "-#####-of-#####.gguf";  // # is a digit

int Number(std::string_view digits) {
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

}  // namespace

std::optional<SplitName> ParseSplitName(std::string_view name) {
  if (name.size() <= kPattern.size()) return std::nullopt;
  const std::string_view ending = name.substr(name.size() - kPattern.size());
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = ending[i] >= '0' && ending[i] <= '9';
    if (kPattern[i] == '#' ? !digit : AsciiLower(ending[i]) != kPattern[i]) return std::nullopt;
  }
  SplitName split;
  split.stem = name.substr(0, name.size() - kPattern.size());
  split.part = Number(ending.substr(kPattern.find('#'), kDigits));
  split.count = Number(ending.substr(kPattern.rfind('#') + 1 - kDigits, kDigits));
  if (split.part < 1 || split.part > split.count) return std::nullopt;
  return split;
}

std::string SplitPartName(std::string_view stem, int part, int count) {
  char ending[48];
  std::snprintf(ending, sizeof ending, "-%05d-of-%05d.gguf", part, count);
  return std::string(stem) + ending;
}

std::vector<std::string> AllParts(const std::string& name) {
  const std::optional<SplitName> split = ParseSplitName(name);
  if (!split) return {name};
  std::vector<std::string> parts;
  for (int part = 1; part <= split->count; ++part) {
    parts.push_back(SplitPartName(split->stem, part, split->count));
  }
  return parts;
}

}  // namespace remontoir
