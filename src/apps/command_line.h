// What was typed: subcommands, flags and their help, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/bench_options.h"
#include "apps/hub_options.h"
#include "base/status.h"
#include "config/config.h"

namespace remontoir {

struct InspectOptions {
  std::string file;
  bool tensors = false;  // list every tensor
};

enum class ComputeChoice { kAuto, kF32 };

// What `serve` and `run` share: the configuration file with the flags over it.
struct EngineChoice {
  Config config;
  std::vector<std::string> notes;  // accepted without effect, for the log
  ComputeChoice compute = ComputeChoice::kAuto;
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
               BenchKernelsOptions, PullCommand, ListCommand, RemoveCommand>
      command;
};

// Errors are written for the person at the terminal, and name the flag or the file's line.
Result<Invocation> ParseCommandLine(int argc, const char* const* argv);

}  // namespace remontoir
