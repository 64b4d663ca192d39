// Streams of one's own: a recipe as a small YAML file.
#pragma once

#include <string>

#include "base/status.h"
#include "simulation/stream.h"

namespace remontoir {

// `key: value` lines; docs/simulation.md lists the keys. A trace's path counts from the file's own
// folder. Errors say "FILE:LINE: KEY: what is wrong".
Result<StreamRecipe> LoadStreamFile(const std::string& path);
Result<StreamRecipe> ParseStreamFile(const std::string& text, const std::string& path);

}  // namespace remontoir
