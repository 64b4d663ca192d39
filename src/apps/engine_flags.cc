// A flag is a configuration key, or one of the few things beside it.
#include "apps/engine_flags.h"

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "config/keys.h"
#include "config/load.h"
#include "hub/model_reference.h"

namespace remontoir {
namespace {

// A flag that sets a configuration key.
struct KeyFlag {
  const char* names;
  const char* key;
  const char* value_name;
  const char* help;
  bool serve_only;
};

constexpr KeyFlag kKeyFlags[] = {
    {"-m,--model", "model.file", "MODEL",
     "A GGUF file (a split one by its first part), a name in the store, or hf:OWNER/REPO", true},
    {"--context", "model.context", "N", "Tokens a sequence may hold (default: the model's own)",
     false},
    {"--host", "server.host", "ADDRESS", "Where to listen (default 127.0.0.1)", true},
    {"--port", "server.port", "N", "Port to listen on (default 8080; 0: a free one)", true},
    {"--api-keys-file", "server.api_keys_file", "FILE", "Ask clients for one of these keys", true},
    {"-t,--threads", "engine.threads", "N", "Threads that compute (default: one a core)", false},
    {"--sequences-max", "engine.sequences_max", "N", "Answers generated at once (default 8)", true},
    {"--queue-max", "engine.queue_max", "N", "Requests that may wait (default 256)", true},
    {"--kv-memory", "kv_cache.memory", "SIZE", "Memory for keys and values, e.g. 2GiB", false},
    {"--kv-type", "kv_cache.type", "TYPE",
     "Their element type: f16, bf16, f32 or q8_0 (f32 with --compute f32)", false},
    {"--log-level", "telemetry.log_level", "LEVEL", "debug, info, warning or error", false},
};

// "--threads" of "-t,--threads".
std::string LongName(std::string_view names) { return std::string(names.substr(names.find("--"))); }

// Of serve alone.
void AddServerFlags(CLI::App& command, EngineFlags& flags) {
  const auto add_switch = [&](const char* name, const char* key, const char* value,
                              const char* help) {
    command.add_flag_function(
        name,
        [&flags, name, key, value](int64_t) {
          flags.overrides.push_back({name, key, ScalarValue(value)});
        },
        help);
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--alias",
          [&flags](const std::vector<std::string>& names) {
            ConfigValue list;
            list.kind = ConfigValue::Kind::kList;
            for (const std::string& name : names) list.items.push_back(ScalarValue(name));
            flags.overrides.push_back({"--alias", "model.alias", std::move(list)});
          },
          "One more name the model answers to (may be repeated)")
      ->option_text("NAME")
      ->allow_extra_args(false);
  add_switch("--any-model-name", "server.any_model_name", "true",
             "Answer whatever model name a request gives");
  command.add_flag_callback(
      "--enable-kv-prefetch",
      [&flags] {
        const char* const kFlag = "--enable-kv-prefetch";
        flags.overrides.push_back(
            {kFlag, "kv_cache.strategy", ScalarValue("bucketed_prealloc_v2")});
        flags.overrides.push_back({kFlag, "kv_cache.lock", ScalarValue("true")});
      },
      "KV room in buckets, pre-faulted and locked");
  add_switch("--use-custom-flash-attn", "attention.mode", "auto",
             "Sparse attention from position 16384 on");
}

}  // namespace

void AddEngineFlags(CLI::App& command, EngineFlags& flags, bool serve) {
  command
      .add_option("-c,--config", flags.config_file,
                  "Configuration (YAML); the flags below override it")
      ->option_text("FILE");
  command
      .add_option_function<std::string>(
          "--hf",
          [&flags](const std::string& text) {
            const Result<ModelReference> reference = ParseModelReference(text);
            if (!reference.ok()) throw CLI::ValidationError("-hf", reference.status().message());
            flags.overrides.push_back(
                {"-hf", "model.file", ScalarValue(ModelReferenceText(*reference))});
          },
          "-hf REF: the model hf:REF, pulled first when it isn't in the store")
      ->option_text("OWNER/REPO[/FILE | :QUANT]");
  for (const KeyFlag& flag : kKeyFlags) {
    if (flag.serve_only && !serve) continue;
    command
        .add_option_function<std::string>(
            flag.names,
            [&flags, &flag](const std::string& text) {
              flags.overrides.push_back({LongName(flag.names), flag.key, ScalarValue(text)});
            },
            flag.help)
        ->option_text(flag.value_name);
  }
  command
      .add_option("--compute", flags.compute,
                  "auto: quantised weights meet 8-bit activations; f32: all in float32, keys and "
                  "values too")
      ->option_text("MODE")
      ->check(CLI::IsMember({"auto", "f32"}));
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&flags](const std::vector<std::string>& settings) {
            for (const std::string& setting : settings) {
              const size_t equals = setting.find('=');
              if (equals == std::string::npos) {
                throw CLI::ValidationError("--set", "wants KEY=VALUE, not " + setting);
              }
              flags.overrides.push_back(
                  {"--set", setting.substr(0, equals), ScalarValue(setting.substr(equals + 1))});
            }
          },
          "Sets any key of the configuration")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  if (serve) AddServerFlags(command, flags);
}

Result<EngineChoice> ResolveEngine(const EngineFlags& flags) {
  EngineChoice choice;
  if (!flags.config_file.empty()) {
    REM_ASSIGN_OR_RETURN(choice.config, LoadConfig(flags.config_file));
  }
  for (const EngineFlags::Override& override : flags.overrides) {
    REM_RETURN_IF_ERROR(
        SetConfigKey(override.key, override.value, choice.config).WithContext(override.flag));
  }
  REM_RETURN_IF_ERROR(CheckConfig(choice.config));
  if (flags.compute == "f32") choice.compute = ComputeChoice::kF32;
  return choice;
}

CLI::Option* AddModelArgument(CLI::App& command, EngineFlags& flags) {
  return command
      .add_option_function<std::string>(
          "model",
          [&flags](const std::string& file) {
            flags.overrides.push_back({"MODEL", "model.file", ScalarValue(file)});
          },
          "A GGUF file, a name in the store, or hf:OWNER/REPO")
      ->option_text("MODEL");
}

}  // namespace remontoir
