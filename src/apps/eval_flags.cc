// Each subcommand in a function of its own.
#include "apps/eval_flags.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>

#include "apps/help_text.h"

namespace remontoir {
namespace {

void AddBound(CLI::App& command, const char* name, std::optional<double>& bound, const char* help) {
  command.add_option(name, bound, help)->option_text("X")->check(CLI::NonNegativeNumber);
}

void AddLogitsFlags(CLI::App& command, EvalLogitsOptions& options) {
  command
      .add_option("--reference", options.reference,
                  "The reference: logits of the last tokens, a row each, as .npy")
      ->option_text("FILE.npy")
      ->required();
  command.add_option("--tokens", options.tokens, "The tokens' ids; nothing is put before them")
      ->option_text("ID,ID...")
      ->delimiter(',')
      ->required()
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  AddBound(command, "--max-abs", options.bounds.max_abs,
           "Largest difference of two logits (default with --compute f32: 0.001)");
  AddBound(command, "--rms", options.bounds.rms_relative,
           "Rms of the differences by the reference's standard deviation (default else: 0.06, of "
           "experts 0.12)");
  AddBound(command, "--kl", options.bounds.kl_mean,
           "Mean of KL(reference || model), nats (default else: 0.02)");
  AddBound(command, "--top1", options.bounds.top1_share,
           "Share of rows whose likeliest token must be the reference's");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of a table");
}

void AddLongContextFlags(CLI::App& command, EvalLongContextOptions& options) {
  command.add_option("model", options.model, "The model file")->option_text("MODEL")->required();
  command.add_option("--text", options.text_file, "The text's file")
      ->option_text("FILE")
      ->required();
  command.add_option("--context", options.context, "Tokens to read (default 8192)")
      ->option_text("N")
      ->check(CLI::Range(4480, 1 << 20));
  command
      .add_option("--rope-base-scale", options.rope_base_scale,
                  "Multiplies the RoPE base, for contexts beyond the trained one (default 1)")
      ->option_text("S")
      ->check(CLI::Range(1e-3, 1e3));
  command.add_option("--epsilon", options.epsilon, "As attention.epsilon (default 0.1)")
      ->option_text("E")
      ->check(CLI::Range(1e-6, 0.9));
  command.add_option("--block-keys", options.block_keys, "As attention.block_keys")
      ->option_text("N")
      ->check(CLI::IsMember({16, 32, 64}));
  command.add_option("--scored", options.scored, "Predictions that count, the last ones")
      ->option_text("N")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--decode", options.decode, "Tokens at the end that are computed one by one")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 20));
  command
      .add_flag("--exact-prompt", options.exact_prompt,
                "Reads the tokens before those of --decode exactly")
      ->needs("--decode");
  command
      .add_option("--needles", options.needles,
                  "Codes to hide in prompts of the text and to ask for (default 32; 0: none)")
      ->option_text("N")
      ->check(CLI::Range(0, 4096));
  command
      .add_option_function<std::string>(
          "--compute",
          [&options](const std::string& mode) {
            options.compute = mode == "f32" ? ComputeChoice::kF32 : ComputeChoice::kAuto;
          },
          "auto: quantised weights meet 8-bit activations; f32: all in float32, keys and values "
          "too")
      ->option_text("MODE")
      ->check(CLI::IsMember({"auto", "f32"}));
  command.add_flag("!--no-rounding", options.rounding,
                   "Leaves out the reading in float32 that tells 8-bit rounding apart");
  command.add_option("-t,--threads", options.threads, "Threads (default: one a core)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--json", options.json, "One JSON object on stdout");
}

}  // namespace

void AddEvalCommands(CLI::App& app, EvalCommands& commands) {
  CLI::App* eval = app.add_subcommand("eval", "What a model and its settings get right");
  eval->require_subcommand(1);
  commands.logits = eval->add_subcommand("logits", "Its logits beside reference numbers");
  commands.logits->footer(kEvalLogitsFooter);
  AddModelArgument(*commands.logits, commands.logits_flags)->required();
  AddLogitsFlags(*commands.logits, commands.logits_options);
  AddEngineFlags(*commands.logits, commands.logits_flags, false);
  commands.long_context =
      eval->add_subcommand("longcontext", "What sparse attention changes in its predictions");
  commands.long_context->footer(kEvalLongContextFooter);
  AddLongContextFlags(*commands.long_context, commands.long_context_options);
}

}  // namespace remontoir
