// The commands of `remontoir eval` and their flags.
#pragma once

#include "apps/engine_flags.h"
#include "apps/eval_options.h"

namespace CLI {
class App;
}

namespace remontoir {

struct EvalCommands {
  CLI::App* logits = nullptr;
  CLI::App* long_context = nullptr;
  EvalLogitsOptions logits_options;
  EngineFlags logits_flags;
  EvalLongContextOptions long_context_options;
};

// `commands` must outlive the app.
void AddEvalCommands(CLI::App& app, EvalCommands& commands);

}  // namespace remontoir
