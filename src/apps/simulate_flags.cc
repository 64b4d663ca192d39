// CLI11's second file: this command has as many flags as all benches together.
#include "apps/simulate_flags.h"

#include <CLI/CLI.hpp>
#include <map>

#include "apps/help_text.h"

namespace remontoir {
namespace {

std::map<std::string, SchedulingPolicy> Policies() {
  std::map<std::string, SchedulingPolicy> policies;
  for (const SchedulingPolicy policy : {SchedulingPolicy::kAdaptive, SchedulingPolicy::kFixed,
                                        SchedulingPolicy::kImmediate, SchedulingPolicy::kLegacy}) {
    policies.emplace(Name(policy), policy);
  }
  return policies;
}

void AddPolicyFlags(CLI::App& command, SimulateOptions& options) {
  // A list of words by hand: CLI11 would show their numbers in its help.
  command
      .add_option_function<std::vector<std::string>>(
          "--policy",
          [&options](const std::vector<std::string>& words) {
            const std::map<std::string, SchedulingPolicy> policies = Policies();
            options.policies.clear();
            for (const std::string& word : words) {
              const auto found = policies.find(word);
              if (found == policies.end()) {
                throw CLI::ValidationError(
                    "--policy", "wants adaptive, fixed, immediate or legacy, not " + word);
              }
              options.policies.push_back(found->second);
            }
          },
          "adaptive, fixed, immediate, legacy (default: immediate,adaptive)")
      ->option_text("P,P...")
      ->delimiter(',');
  command
      .add_option("--omega", options.scheduler.forecast_weight,
                  "What expected arrivals weigh in adaptive (default 0.3; 0: state only)")
      ->option_text("W")
      ->check(CLI::Range(0.0, 100.0));
  command
      .add_option_function<std::string>(
          "--order",
          [&options](const std::string& word) {
            options.scheduler.order =
                word == "fcfs" ? SchedulingOrder::kArrival : SchedulingOrder::kShortest;
          },
          "Of adaptive: fcfs (arrival) or srpf (shortest remaining prefill, default)")
      ->option_text("ORDER")
      ->check(CLI::IsMember({"fcfs", "srpf"}));
  command
      .add_option("--predictor", options.predictor,
                  "Of arrivals: ewma (default), none, or a trained one's file")
      ->option_text("P");
  command.add_option("--costs", options.costs, "Costs of rounds that an engine learnt (JSON)")
      ->option_text("FILE");
  command
      .add_option("--ttft-slo-ms", options.ttft_slo_ms,
                  "Requests refuse to wait longer for their first token (default: they don't)")
      ->option_text("MS")
      ->check(CLI::Range(0.0, 1e9));
}

void AddLoadFlags(CLI::App& command, SimulateOptions& options) {
  command.add_option("--trace", options.trace, "The trace (CSV), or the folder with it")
      ->option_text("FILE");
  command
      .add_option("--stream", options.stream,
                  "convC30, convC60, codeC30, convG60, codeG30, mmppC60, or a .yaml file")
      ->option_text("NAME|FILE.yaml");
  command.add_option("--seed", options.seed, "The first seed (default 1)")
      ->option_text("N")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 62));
  command.add_option("--seeds", options.seeds, "How many, one after the other (default 1)")
      ->option_text("K")
      ->check(CLI::Range(1, 10'000));
  command.add_option("--from", options.from, "Play the stream from this share of its time (0.75)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 0.999));
  command
      .add_option("--clients", options.clients,
                  "A closed loop: so many send, wait, think and send again")
      ->option_text("N")
      ->check(CLI::Range(1, 100'000));
  command.add_option("--think-s", options.think_s, "Seconds that they think (mean; default 0)")
      ->option_text("S")
      ->check(CLI::Range(0.0, 1e6));
  command.add_option("--seconds", options.seconds, "How long they go on (default 600)")
      ->option_text("S")
      ->check(CLI::Range(1.0, 1e7));
}

}  // namespace

void AddSimulateFlags(CLI::App& command, SimulateOptions& options) {
  command.footer(kSimulateFooter);
  AddLoadFlags(command, options);
  AddPolicyFlags(command, options);
  command.add_flag("--json", options.json, "JSON on stdout instead of tables");
  command.add_option("--plot", options.plot, "Also draw the distributions into this file (SVG)")
      ->option_text("FILE");
  command.add_flag("--acceptance", options.acceptance,
                   "Play the specification's streams and judge its lines");
  command.final_callback([&options] {
    if (options.stream.empty() && !options.acceptance) {
      throw CLI::ValidationError("--stream", "wants a stream, unless --acceptance is given");
    }
  });
}

}  // namespace remontoir
