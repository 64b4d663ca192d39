// A model ready to answer in this process: engine, tokenizer and chat template of one file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/command_line.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/loaded_engine.h"
#include "server/served_model.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

struct LocalModel {
  std::string name;  // of its file
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
  double load_seconds = 0;  // from the opened file to the running engine
  std::string costs_path;   // where the costs of rounds are kept; empty: nowhere
  LoadedEngine loaded;      // last: the engine stops first

  Engine& engine() { return *loaded.engine; }
};

// Finds (in the store, or pulls), reads, checks and loads choice.config.model.file, takes all
// memory and starts the engine, with a progress bar when stderr is a terminal. Errors name the
// file, the field or the key. The clock must outlive the model.
Result<std::unique_ptr<LocalModel>> OpenLocalModel(const EngineChoice& choice, const Clock& clock);

// Writes what the rounds of this run cost where the next start finds it.
void KeepCosts(LocalModel& model);

// The configuration's words as the engine's options.
LoadEngineOptions EngineOptionsOf(const EngineChoice& choice);

SparseAttentionOptions SparseOptionsOf(const AttentionConfig& config);

// The cache of packed weights that the configuration asks for; without a home folder to put it in,
// `auto` is none.
RepackCacheOptions RepackCacheOf(const ModelConfig& config);

// As the server shows it; points into `model`.
ServedModel Served(LocalModel& model, const Config& config);

// One line for the log: "NAME: context 8192, 8 sequences, KV room for 65536 tokens in F16, …".
std::string Describe(const LocalModel& model);

// One line for the log: "KV room: 1.41 GiB, locked, 720 huge pages".
std::string DescribeRoom(const EnginePlan& plan);

// One line for the log: "loaded in 0.31 s, of them 0.06 s for 103 MiB of weights from the repack
// cache", or "... repacked".
std::string DescribeLoading(const LocalModel& model);

// Logs what stood in the way of the cache of packed weights.
void LogNotes(const WeightsReport& report);

// The name a model file gives its model: no folder, no ".gguf", no part number.
std::string ModelNameOf(const std::string& path);

}  // namespace remontoir
