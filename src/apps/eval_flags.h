// Flags of `remontoir eval`, beside the model's.
#pragma once

#include "apps/tool_options.h"

namespace CLI {
class App;
}

namespace remontoir {

void AddEvalLogitsFlags(CLI::App& command, EvalLogitsOptions& options);

}  // namespace remontoir
