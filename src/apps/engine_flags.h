// The flags of every command that loads a model: they become configuration keys.
#pragma once

#include <string>
#include <vector>

#include "apps/engine_choice.h"
#include "base/status.h"
#include "config/value.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace remontoir {

struct EngineFlags {
  // What a flag or --set asked for.
  struct Override {
    std::string flag;  // for errors
    std::string key;
    ConfigValue value;
  };
  std::string config_file;
  std::vector<Override> overrides;  // in the order in which they were typed
  std::string compute = "auto";
};

// `flags` must outlive the command. serve: also those of a server.
void AddEngineFlags(CLI::App& command, EngineFlags& flags, bool serve);
// The model as an argument without a flag's name.
CLI::Option* AddModelArgument(CLI::App& command, EngineFlags& flags);

// The configuration file, if any, with the flags over it. Errors name the flag or the file's line.
Result<EngineChoice> ResolveEngine(const EngineFlags& flags);

}  // namespace remontoir
