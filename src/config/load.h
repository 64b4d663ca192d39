// Reads inference_config.yaml into a Config, and small files of other keys.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "config/config.h"
#include "config/value.h"

namespace remontoir {

// Every key is in the table of config/keys.h, of its type and within its bounds, or else the error
// says "FILE:LINE: KEY: what is wrong", for an unknown key with the nearest one that is known.
Result<Config> LoadConfig(const std::string& path);

// The same for text that was read before; `name` stands for the file in errors.
Result<Config> ParseConfig(const std::string& text, const std::string& name);

// A file's text, 1 MiB at most.
Result<std::string> ReadSmallFile(const std::string& path);

struct YamlEntry {
  std::string place;  // "FILE:LINE"
  std::string key;
  ConfigValue value;
};

// A file of `key: value` lines without sections, whatever its keys. Errors say "NAME:LINE: ...".
Result<std::vector<YamlEntry>> ParseFlatYaml(const std::string& text, const std::string& name);

}  // namespace remontoir
