// Beside command_line.cc, which knows the flags of models.
#include "apps/eval_flags.h"

#include <CLI/CLI.hpp>
#include <limits>

namespace remontoir {
namespace {

void AddBound(CLI::App& command, const char* name, std::optional<double>& bound, const char* help) {
  command.add_option(name, bound, help)->option_text("X")->check(CLI::NonNegativeNumber);
}

}  // namespace

void AddEvalLogitsFlags(CLI::App& command, EvalLogitsOptions& options) {
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

}  // namespace remontoir
