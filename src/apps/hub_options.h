// What was typed for `remontoir pull`, `list` and `rm`.
#pragma once

#include <string>

namespace remontoir {

struct PullCommand {
  std::string reference;  // hf:OWNER/REPO[/FILE | :QUANT], already known to parse
};

struct ListCommand {};

struct RemoveCommand {
  std::string name;  // exact, or the start of one alone
};

}  // namespace remontoir
