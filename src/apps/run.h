// `remontoir run`: one answer, or a chat in the terminal.
#pragma once

#include "apps/command_line.h"
#include "base/status.h"

namespace remontoir {

// Answers go to stdout as they come, everything else to stderr.
Status Run(const RunOptions& options);

}  // namespace remontoir
