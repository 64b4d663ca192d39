// `remontoir completion`: scripts that teach a shell the commands and their flags.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace remontoir {

// A command, or a command and its subcommand, as typed: "bench engine".
struct CompletedCommand {
  std::string words;
  std::vector<std::string> flags;     // "--port"
  std::vector<std::string> commands;  // that may follow
};

// For bash, zsh or fish. The first entry is the program itself (no words).
Result<std::string> CompletionScript(const std::string& shell,
                                     const std::vector<CompletedCommand>& commands);

}  // namespace remontoir
