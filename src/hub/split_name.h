// Names of models that are cut into several files: NAME-00001-of-00003.gguf.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace remontoir {

struct SplitName {
  std::string stem;  // what stands before -00001-of-00003.gguf
  int part = 1;      // from 1
  int count = 1;
};

// Nothing for a name that is no part: another ending, a part of 0 or above the count.
std::optional<SplitName> ParseSplitName(std::string_view name);

std::string SplitPartName(std::string_view stem, int part, int count);

// All parts of the model that this file belongs to, in order; the name itself when it is no part.
std::vector<std::string> AllParts(const std::string& name);

}  // namespace remontoir
