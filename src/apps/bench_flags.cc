// What can be typed after `remontoir bench`; serving's flags have a file of their own.
#include "apps/bench_flags.h"

#include <CLI/CLI.hpp>

#include "apps/help_text.h"
#include "apps/serving_flags.h"

namespace remontoir {
namespace {

void AddCounts(CLI::App& command, const char* name, std::vector<int32_t>& counts,
               const char* help) {
  command.add_option(name, counts, help)
      ->option_text("N,N...")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20));
}

void AddBenchEngineFlags(CLI::App& command, BenchEngineOptions& options) {
  command.add_option("-m,--model", options.file, "The model file")->option_text("FILE")->required();
  command.add_option("-t,--threads", options.threads, "Threads that compute (default: one a core)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
  AddCounts(command, "--prompt", options.prompts, "Lengths of prompts");
  AddCounts(command, "--depth", options.depths, "Keys already there when single steps are timed");
  AddCounts(command, "--batch", options.batches, "Sequences that decode at once");
  command.add_option("--batch-depth", options.batch_depth, "Keys of each of them (default 512)")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 20));
  command.add_option("--steps", options.steps, "Tokens of a decode or batch row (default 32)")
      ->option_text("N")
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--rounds", options.rounds, "Measurements of each row (default 5)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000));
  command.add_flag("--f32", options.float32, "Compute all in float32, keys and values too");
  command.add_flag("--experts-mapped", options.experts_mapped, "As engine.experts: mapped");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of a table");
  command.add_flag("--steps-profile", options.steps_profile,
                   "What products, attention and the rest of a round take");
  command.add_flag("--worker", options.worker, "Measure what JSON lines on stdin ask for");
}

void AddBenchKernelsFlags(CLI::App& command, BenchKernelsOptions& options) {
  command.add_option("--isa", options.isa, "Instruction set, or all (default: the fastest here)")
      ->option_text("NAME");
  command.add_option("--filter", options.filter, "Only kernels whose name contains this")
      ->option_text("TEXT");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of a table");
}

void AddBenchKvFlags(CLI::App& command, BenchKvOptions& options) {
  command
      .add_option("-m,--model", options.file, "Also first tokens after a history, of this model")
      ->option_text("FILE");
  command.add_option("-t,--threads", options.threads, "Threads that compute (default: one a core)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
  command.add_option("--rounds", options.rounds, "Measurements of each length (default 9)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000));
  command.add_flag("--json", options.json, "One JSON object on stdout instead of tables");
}

void AddBenchAttentionFlags(CLI::App& command, BenchAttentionOptions& options) {
  command.add_option("-m,--model", options.file, "The model whose queries and keys are taken")
      ->option_text("FILE")
      ->required();
  command.add_option("--text", options.text_file, "What it reads (default: installed files)")
      ->option_text("FILE");
  command.add_flag("--quick", options.quick, "Less of everything, within 50 s on two cores");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of tables");
}

}  // namespace

void AddBenchCommands(CLI::App& app, BenchCommands& commands) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed beside the machine's ceilings");
  bench->footer(kBenchFooter);
  bench->require_subcommand(1);
  commands.engine = bench->add_subcommand("engine", "Prompts, single steps and batches of a model");
  AddBenchEngineFlags(*commands.engine, commands.engine_options);
  commands.kernels = bench->add_subcommand("kernels", "Each kernel by itself, on one thread");
  AddBenchKernelsFlags(*commands.kernels, commands.kernels_options);
  commands.kv =
      bench->add_subcommand("kv", "Room for keys and values, and first tokens from cache");
  AddBenchKvFlags(*commands.kv, commands.kv_options);
  commands.attention = bench->add_subcommand(
      "attention", "Exact, masked and sparse attention on a model's own queries");
  AddBenchAttentionFlags(*commands.attention, commands.attention_options);
  commands.serving = bench->add_subcommand("serving", "A running server under load, over HTTP");
  commands.serving->footer(kBenchServingFooter);
  AddBenchServingFlags(*commands.serving, commands.serving_options);
}

}  // namespace remontoir
