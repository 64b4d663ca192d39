// What was typed: subcommands, flags and their help, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/bench_options.h"
#include "apps/bench_serving_options.h"
#include "apps/engine_choice.h"
#include "apps/eval_options.h"
#include "apps/hub_options.h"
#include "apps/tool_options.h"
#include "apps/train_options.h"
#include "base/status.h"
#include "simulation/simulate.h"

namespace remontoir {

struct InspectOptions {
  std::string file;
  bool tensors = false;  // list every tensor
};

struct ServeOptions {
  EngineChoice engine;
};

struct RunOptions {
  EngineChoice engine;
  std::optional<std::string> prompt;  // unset: chat in the terminal
  std::string system;                 // empty: the template's own
  int64_t max_tokens = -1;            // -1: until the model ends or the context is full
  double temperature = 0.7;
  double top_p = 0.95;
  std::optional<uint64_t> seed;  // unset: drawn
};

struct Invocation {
  std::string text;  // what --help or --version asked for; nothing is run then
  std::variant<std::monostate, InspectOptions, ServeOptions, RunOptions, BenchEngineOptions,
               BenchKernelsOptions, BenchKvOptions, BenchAttentionOptions, BenchServingOptions,
               PullCommand, ListCommand, RemoveCommand, TokenizeOptions, PerplexityOptions,
               EvalLogitsOptions, EvalLongContextOptions, PlanOptions, TrainOptions,
               CompletionOptions, SimulateOptions>
      command;
};

// Errors are written for the person at the terminal, and name the flag or the file's line.
Result<Invocation> ParseCommandLine(int argc, const char* const* argv);

}  // namespace remontoir
