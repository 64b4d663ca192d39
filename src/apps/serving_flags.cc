// Beside command_line.cc the only file that sees CLI11.
#include "apps/serving_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <string_view>

namespace remontoir {
namespace {

constexpr int kClientsMax = 1 << 16;

// "LO-HI", or one number for both.
bool ReadRange(std::string_view text, TokenRange& range) {
  const size_t dash = text.find('-');
  const auto read = [](std::string_view part, int32_t& number) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    return error == std::errc() && end == part.data() + part.size();
  };
  if (!read(text.substr(0, dash), range.low)) return false;
  range.high = range.low;
  return dash == std::string_view::npos || read(text.substr(dash + 1), range.high);
}

void AddRange(CLI::App& command, const char* name, TokenRange& range, const char* help) {
  command
      .add_option_function<std::string>(
          name,
          [name, &range](const std::string& text) {
            if (!ReadRange(text, range) || range.low < 1 || range.low > range.high ||
                range.high > kLoadTokensMax) {
              throw CLI::ValidationError(name, "wants LO-HI or N, not " + text);
            }
          },
          help)
      ->option_text("LO-HI");
}

void AddServerFlags(CLI::App& command, BenchServingOptions& options) {
  command.add_option("--url", options.url, "The server (default http://127.0.0.1:8080)")
      ->option_text("URL");
  command.add_option("-m,--model", options.model, "Model name in the requests (default: default)")
      ->option_text("NAME");
  command.add_flag("--completions", options.completions,
                   "/v1/completions, without a chat template");
  command.add_option("--header", options.headers, "Sent with every request (may be repeated)")
      ->option_text("\"NAME: VALUE\"")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        const size_t colon = text.find(": ");
        const bool is_line = text.find_first_of("\r\n") == std::string::npos;
        return colon != std::string::npos && colon > 0 && is_line ? "" : "wants NAME: VALUE";
      });
  command
      .add_option("--connections-max", options.connections_max,
                  "Requests on their way at once; more wait here (default 1000)")
      ->option_text("N")
      ->check(CLI::Range(1, kClientsMax));
  command
      .add_option("--reply-seconds-max", options.reply_seconds_max,
                  "An answer that takes longer is given up (default 600)")
      ->option_text("S")
      ->check(CLI::Range(0.001, 86400.0));
}

void AddShapeFlags(CLI::App& command, BenchServingOptions& options) {
  command
      .add_option("--long-share", options.shape.long_share, "Share of long prompts (default 0.15)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 1.0));
  AddRange(command, "--short-tokens", options.shape.short_prompt,
           "Tokens of short prompts (default 20-60)");
  AddRange(command, "--long-tokens", options.shape.long_prompt,
           "Tokens of long prompts (default 1500)");
  AddRange(command, "--output-tokens", options.shape.output, "Tokens of answers (default 32-96)");
  command
      .add_option("--template-tokens", options.template_tokens,
                  "What the chat template adds; taken off each prompt (default 0)")
      ->option_text("N")
      ->check(CLI::Range(0, 1 << 16));
}

}  // namespace

void AddBenchServingFlags(CLI::App& command, BenchServingOptions& options) {
  AddServerFlags(command, options);
  command.add_option("--rate", options.rate, "Open loop: requests a second")
      ->option_text("R")
      ->check(CLI::Range(1e-4, 1e5));
  command.add_option("--seconds", options.seconds, "For how long requests are begun")
      ->option_text("S")
      ->check(CLI::Range(0.001, 1e6));
  command.add_option("--clients", options.clients, "Closed loop: so many clients")
      ->option_text("N")
      ->check(CLI::Range(1, kClientsMax));
  command.add_option("--think-s", options.think_s, "Mean of a client's exponential pause")
      ->option_text("S")
      ->check(CLI::Range(0.0, 1e6));
  command
      .add_option("--pulse", options.pulse, "So many clients, prompts of one word, 16 tokens each")
      ->option_text("N")
      ->check(CLI::Range(1, kClientsMax));
  command.add_option("--requests", options.requests, "Requests in all; of a trace: at most")
      ->option_text("N")
      ->check(CLI::Range(int64_t{1}, kLoadRequestsMax));
  command.add_option("--trace", options.trace, "Open loop from t_us,prompt_tokens,output_tokens")
      ->option_text("FILE.csv");
  command
      .add_option("--long-from", options.long_from,
                  "A trace's prompts of at least so many tokens count as long")
      ->option_text("N")
      ->check(CLI::Range(0, kLoadTokensMax));
  AddShapeFlags(command, options);
  command.add_option("--seed", options.seed, "Draws arrivals, lengths and words (default 1)")
      ->option_text("N");
  command
      .add_option("--warm-up", options.warm_up,
                  "Requests beforehand that aren't counted (default 1)")
      ->option_text("N")
      ->check(CLI::Range(0, 10'000));
  command.add_option("--records", options.records, "Also writes a line for each request")
      ->option_text("FILE.csv");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of a table");
}

}  // namespace remontoir
