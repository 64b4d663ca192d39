// Beside command_line.cc, these files of flags are all that sees CLI11.
#include "apps/eval_flags.h"

#include <CLI/CLI.hpp>

#include "apps/help_text.h"

namespace remontoir {

CLI::App* AddEvalCommands(CLI::App& command, EvalLongContextOptions& options) {
  command.require_subcommand(1);
  CLI::App* longcontext =
      command.add_subcommand("longcontext", "What sparse attention costs a model in quality");
  longcontext->footer(kEvalLongContextFooter);
  longcontext->add_option("model", options.model, "The model file")
      ->option_text("MODEL")
      ->required();
  longcontext->add_option("--text", options.text_file, "The text's file")
      ->option_text("FILE")
      ->required();
  longcontext->add_option("--context", options.context, "Tokens to read (default 8192)")
      ->option_text("N")
      ->check(CLI::Range(4352, 1 << 20));
  longcontext
      ->add_option("--rope-base-scale", options.rope_base_scale,
                   "Multiplies the RoPE base, for contexts beyond the trained one (default 1)")
      ->option_text("S")
      ->check(CLI::Range(1e-3, 1e3));
  longcontext->add_option("--epsilon", options.epsilon, "As attention.epsilon (default 0.1)")
      ->option_text("E")
      ->check(CLI::Range(1e-6, 0.9));
  longcontext->add_option("--block-keys", options.block_keys, "As attention.block_keys")
      ->option_text("N")
      ->check(CLI::IsMember({16, 32, 64}));
  longcontext->add_option("--scored", options.scored, "Predictions that count, the last ones")
      ->option_text("N")
      ->check(CLI::Range(1, 1 << 20));
  longcontext
      ->add_option("--decode", options.decode, "Tokens at the end that are computed one by one")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 20));
  longcontext->add_option("-t,--threads", options.threads, "Threads (default: one a core)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
  longcontext->add_flag("--json", options.json, "One JSON object on stdout");
  return longcontext;
}

}  // namespace remontoir
