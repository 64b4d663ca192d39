// CLI11 stays here and in *_flags.cc: flags become configuration keys and plain options.
#include "apps/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/bench_flags.h"
#include "apps/completion.h"
#include "apps/engine_flags.h"
#include "apps/eval_flags.h"
#include "apps/help_text.h"
#include "apps/simulate_flags.h"
#include "config/edit_distance.h"
#include "hub/model_reference.h"

namespace remontoir {
namespace {

void AddRunFlags(CLI::App& command, RunOptions& options, EngineFlags& flags) {
  AddModelArgument(command, flags);
  command.add_option("-p,--prompt", options.prompt, "Answer this and end")->option_text("TEXT");
  command.add_option("-s,--system", options.system, "The system message")->option_text("TEXT");
  command.add_option("-n,--max-tokens", options.max_tokens, "Tokens of an answer at most")
      ->option_text("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command.add_option("--temperature", options.temperature, "0: always the likeliest (default 0.7)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 2.0));
  command.add_option("--top-p", options.top_p, "Likeliest tokens up to this sum (default 0.95)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", options.seed, "The same seed, the same answer")->option_text("N");
  AddEngineFlags(command, flags, false);
}

struct HubCommands {
  CLI::App* pull = nullptr;
  CLI::App* list = nullptr;
  CLI::App* remove = nullptr;
  PullCommand pull_command;
  RemoveCommand remove_command;
};

void AddHubCommands(CLI::App& app, HubCommands& commands) {
  commands.pull = app.add_subcommand("pull", "Fetch a model from the hub into the store");
  commands.pull->footer(kPullFooter);
  commands.pull
      ->add_option_function<std::string>(
          "reference",
          [&commands](const std::string& text) {
            const Result<ModelReference> reference = ParseModelReference(text);
            if (!reference.ok()) throw CLI::ValidationError(reference.status().message());
            commands.pull_command.reference = text;
          },
          "What to fetch")
      ->option_text("hf:OWNER/REPO[/FILE | :QUANT]")
      ->required();
  commands.list = app.add_subcommand("list", "List the models in the store");
  commands.remove = app.add_subcommand("rm", "Remove a model from the store");
  commands.remove->footer(kRemoveFooter);
  commands.remove->add_option("name", commands.remove_command.name, "As `remontoir list` shows it")
      ->option_text("NAME")
      ->required();
}

struct ToolCommands {
  CLI::App* tokenize = nullptr;
  CLI::App* perplexity = nullptr;
  CLI::App* plan = nullptr;
  CLI::App* completion = nullptr;
  CLI::App* train = nullptr;
  TokenizeOptions tokenize_options;
  TrainOptions train_options;
  PerplexityOptions perplexity_options;
  EngineFlags perplexity_flags;
  EngineFlags plan_flags;
  std::string shell;
};

void AddTrainFlags(CLI::App& command, TrainOptions& options) {
  command.footer(kTrainFooter);
  command.add_option("log", options.log, "Arrivals, as CSV or JSON lines")
      ->option_text("LOG")
      ->required();
  command.add_option("--out", options.out, "Where to write the predictor")->option_text("FILE");
  command.add_option("--tick-ms", options.tick_ms, "Length of a tick (default 20)")
      ->option_text("N")
      ->check(CLI::IsMember({10, 20, 25, 50, 100}));
  command.add_option("--hidden", options.hidden, "Size of the network's state (default 24)")
      ->option_text("N")
      ->check(CLI::Range(1, 24));
  command.add_option("--epochs", options.epochs, "Times to go over the log (default 8)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000));
  command.add_option("--seed", options.seed, "The same seed, the same bytes")->option_text("S");
  command.add_flag("--selftest", options.selftest, "Check the gradient too");
}

void AddToolCommands(CLI::App& app, ToolCommands& commands) {
  commands.tokenize = app.add_subcommand("tokenize", "Texts to token ids and back");
  commands.tokenize->footer(kTokenizeFooter);
  commands.tokenize->add_option("-m,--model", commands.tokenize_options.model, "Whose vocabulary")
      ->option_text("MODEL")
      ->required();
  commands.tokenize->add_flag("--parse-special", commands.tokenize_options.parse_special,
                              "A control token's spelling in a text is that token");
  commands.tokenize->add_flag("--decode", commands.tokenize_options.decode,
                              "Every line must be ids");

  commands.perplexity = app.add_subcommand("perplexity", "How well a model foresees a text");
  commands.perplexity->footer(kPerplexityFooter);
  AddModelArgument(*commands.perplexity, commands.perplexity_flags)->required();
  commands.perplexity->add_option("text", commands.perplexity_options.text_file, "The text's file")
      ->option_text("TEXT")
      ->required();
  commands.perplexity
      ->add_option("--window", commands.perplexity_options.window,
                   "Tokens of one context (default 2048, or the model's context)")
      ->option_text("N")
      ->check(CLI::Range(2, 1 << 24));
  AddEngineFlags(*commands.perplexity, commands.perplexity_flags, false);

  commands.plan = app.add_subcommand("plan", "What a model will take, from its header alone");
  commands.plan->footer(kPlanFooter);
  AddModelArgument(*commands.plan, commands.plan_flags)->required();
  AddEngineFlags(*commands.plan, commands.plan_flags, false);

  commands.train = app.add_subcommand("train-predictor", "A forecaster of arrivals from a log");
  AddTrainFlags(*commands.train, commands.train_options);

  commands.completion = app.add_subcommand("completion", "A script that teaches your shell these");
  commands.completion->footer(kCompletionFooter);
  commands.completion->add_option("shell", commands.shell, "bash, zsh or fish")
      ->option_text("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

// The one of `known` that `word` was most likely meant to be; empty when none is near.
std::string Nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string nearest;
  // A third of the letters wrong is still a slip; more is another word.
  size_t distance_bound = std::max<size_t>(word.size() / 3, 2) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= distance_bound) continue;
    distance_bound = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(const std::string& nearest) {
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::vector<std::string> LongFlags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The program and everything below it, for the shells.
std::vector<CompletedCommand> Completed(const CLI::App& app) {
  std::vector<CompletedCommand> commands;
  const auto add = [&commands](const CLI::App& command, const std::string& words) {
    CompletedCommand completed{words, LongFlags(command), {}};
    for (const CLI::App* next : command.get_subcommands({})) {
      completed.commands.push_back(next->get_name());
    }
    commands.push_back(std::move(completed));
  };
  add(app, "");
  for (const CLI::App* command : app.get_subcommands({})) {
    add(*command, command->get_name());
    for (const CLI::App* next : command->get_subcommands({})) {
      add(*next, command->get_name() + " " + next->get_name());
    }
  }
  return commands;
}

// CLI11's message, or for an unknown word what was probably meant.
std::string Explain(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  if (&command == &app && !arguments.empty() && !arguments[0].starts_with("-")) {
    std::vector<std::string> commands;
    for (const CLI::App* known : app.get_subcommands({})) commands.push_back(known->get_name());
    return arguments[0] + " is no command" + DidYouMean(Nearest(arguments[0], commands));
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::vector<std::string> known = LongFlags(command);
    for (const std::string& argument : arguments) {
      const std::string flag = argument.substr(0, argument.find('='));
      if (!flag.starts_with("--") || std::ranges::count(known, flag) > 0) continue;
      return flag + " is no flag of `" + command.get_name() + "`" +
             DidYouMean(Nearest(flag, known));
    }
  }
  return error.what();
}

// -hf is how people know this flag from elsewhere, but CLI11 would read it as -h.
std::vector<const char*> WithLongHf(int argc, const char* const* argv) {
  std::vector<const char*> arguments(argv, argv + argc);
  for (const char*& argument : arguments) {
    if (std::string_view(argument) == "-hf") argument = "--hf";
  }
  return arguments;
}

// Every subcommand, and what was typed for it.
struct Commands {
  CLI::App* serve = nullptr;
  CLI::App* run = nullptr;
  CLI::App* inspect = nullptr;
  EngineFlags serve_flags;
  EngineFlags run_flags;
  RunOptions run_options;
  InspectOptions inspect_options;
  HubCommands hub;
  ToolCommands tools;
  BenchCommands bench;
  CLI::App* simulate = nullptr;
  SimulateOptions simulate_options;
  EvalCommands eval;
};

void AddCommands(CLI::App& app, Commands& commands) {
  commands.serve = app.add_subcommand("serve", "Answer requests over HTTP");
  commands.serve->footer(kServeFooter);
  AddEngineFlags(*commands.serve, commands.serve_flags, true);

  commands.run = app.add_subcommand("run", "Answer once, or chat in the terminal");
  commands.run->footer(kRunFooter);
  AddRunFlags(*commands.run, commands.run_options, commands.run_flags);

  commands.inspect = app.add_subcommand("inspect", "Say what a model file holds");
  commands.inspect->footer(kInspectFooter);
  commands.inspect->add_option("file", commands.inspect_options.file, "The model file")
      ->option_text("FILE")
      ->required();
  commands.inspect->add_flag("--tensors", commands.inspect_options.tensors,
                             "List every tensor too");
  AddHubCommands(app, commands.hub);
  AddToolCommands(app, commands.tools);
  AddBenchCommands(app, commands.bench);
  commands.simulate = app.add_subcommand("simulate", "What policies would do with a trace");
  AddSimulateFlags(*commands.simulate, commands.simulate_options);
  AddEvalCommands(app, commands.eval);
}

// The commands that work on a model without serving it; false when none of them was parsed.
Result<bool> TakeTool(const CLI::App& app, ToolCommands& tools, Invocation& invocation) {
  if (tools.tokenize->parsed()) {
    invocation.command.emplace<TokenizeOptions>(std::move(tools.tokenize_options));
  } else if (tools.perplexity->parsed()) {
    REM_ASSIGN_OR_RETURN(tools.perplexity_options.engine, ResolveEngine(tools.perplexity_flags));
    invocation.command.emplace<PerplexityOptions>(std::move(tools.perplexity_options));
  } else if (tools.plan->parsed()) {
    REM_ASSIGN_OR_RETURN(EngineChoice engine, ResolveEngine(tools.plan_flags));
    invocation.command = PlanOptions{std::move(engine)};
  } else if (tools.train->parsed()) {
    invocation.command.emplace<TrainOptions>(std::move(tools.train_options));
  } else if (tools.completion->parsed()) {
    REM_ASSIGN_OR_RETURN(std::string script, CompletionScript(tools.shell, Completed(app)));
    invocation.command = CompletionOptions{std::move(script)};
  } else {
    return false;
  }
  return true;
}

// Moves what was typed for the one subcommand that was parsed into the invocation.
Status Take(const CLI::App& app, Commands& commands, Invocation& invocation) {
  REM_ASSIGN_OR_RETURN(const bool taken, TakeTool(app, commands.tools, invocation));
  if (taken) return Status::Ok();
  if (commands.serve->parsed()) {
    REM_ASSIGN_OR_RETURN(EngineChoice engine, ResolveEngine(commands.serve_flags));
    invocation.command = ServeOptions{std::move(engine)};
  } else if (commands.run->parsed()) {
    REM_ASSIGN_OR_RETURN(commands.run_options.engine, ResolveEngine(commands.run_flags));
    if (commands.run_options.engine.config.model.file.empty()) {
      return InvalidArgument(
          "model is required: remontoir run MODEL, or remontoir run -hf OWNER/REPO");
    }
    invocation.command.emplace<RunOptions>(std::move(commands.run_options));
  } else if (commands.inspect->parsed()) {
    invocation.command.emplace<InspectOptions>(std::move(commands.inspect_options));
  } else if (commands.hub.pull->parsed()) {
    invocation.command.emplace<PullCommand>(std::move(commands.hub.pull_command));
  } else if (commands.hub.list->parsed()) {
    invocation.command.emplace<ListCommand>();
  } else if (commands.hub.remove->parsed()) {
    invocation.command.emplace<RemoveCommand>(std::move(commands.hub.remove_command));
  } else if (commands.bench.engine->parsed()) {
    invocation.command.emplace<BenchEngineOptions>(std::move(commands.bench.engine_options));
  } else if (commands.bench.kernels->parsed()) {
    invocation.command.emplace<BenchKernelsOptions>(std::move(commands.bench.kernels_options));
  } else if (commands.bench.kv->parsed()) {
    invocation.command.emplace<BenchKvOptions>(std::move(commands.bench.kv_options));
  } else if (commands.bench.attention->parsed()) {
    invocation.command.emplace<BenchAttentionOptions>(std::move(commands.bench.attention_options));
  } else if (commands.bench.serving->parsed()) {
    invocation.command.emplace<BenchServingOptions>(std::move(commands.bench.serving_options));
  } else if (commands.simulate->parsed()) {
    invocation.command.emplace<SimulateOptions>(std::move(commands.simulate_options));
  } else if (commands.eval.logits->parsed()) {
    REM_ASSIGN_OR_RETURN(commands.eval.logits_options.engine,
                         ResolveEngine(commands.eval.logits_flags));
    invocation.command.emplace<EvalLogitsOptions>(std::move(commands.eval.logits_options));
  } else if (commands.eval.long_context->parsed()) {
    invocation.command.emplace<EvalLongContextOptions>(
        std::move(commands.eval.long_context_options));
  }
  return Status::Ok();
}

}  // namespace

Result<Invocation> ParseCommandLine(int argc, const char* const* argv) {
  CLI::App app("Remontoir serves language models with a predictable first token.", "remontoir");
  app.footer(kFooter);
  app.set_help_flag("-h,--help", "What can be typed here");
  app.set_version_flag("--version", "remontoir " REMONTOIR_VERSION);
  app.require_subcommand(1);
  Commands commands;
  AddCommands(app, commands);

  Invocation invocation;
  const CLI::App* command = &app;
  try {
    const std::vector<const char*> arguments = WithLongHf(argc, argv);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    for (const CLI::App* used : app.get_subcommands()) command = used;
    if (error.get_exit_code() == 0) {
      if (const auto* version = dynamic_cast<const CLI::CallForVersion*>(&error)) {
        invocation.text = std::string(version->what()) + "\n";
      } else {
        invocation.text = app.help();
      }
      return invocation;
    }
    const std::string hint = command == &app ? "" : " " + command->get_name();
    return InvalidArgument(
        Explain(app, *command, error, std::vector<std::string>(argv + 1, argv + argc)) +
        "\n(remontoir" + hint + " --help shows what can be typed)");
  }
  REM_RETURN_IF_ERROR(Take(app, commands, invocation));
  return invocation;
}

}  // namespace remontoir
