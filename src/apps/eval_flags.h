// The flags of `remontoir eval`.
#pragma once

#include "apps/eval_options.h"

namespace CLI {
class App;
}

namespace remontoir {

// `command` is `eval`; returns its subcommand `longcontext`.
CLI::App* AddEvalCommands(CLI::App& command, EvalLongContextOptions& options);

}  // namespace remontoir
