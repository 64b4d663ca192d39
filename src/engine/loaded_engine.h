// Everything from a model file to a running engine, in the order in which it must be made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "formats/model_file.h"
#include "model/model_info.h"
#include "model/model_loader.h"
#include "model/model_runner.h"

namespace remontoir {

struct LoadEngineOptions {
  CpuBackendOptions backend;
  EngineOptions engine;
  int32_t context_max = 0;  // 0: as trained
  RopeAdjustment rope;
  Compat compat = Compat::kAuthors;
  DType kv_type = DType::kF16;       // kF32 is implied by ComputeMode::kF32
  int64_t kv_memory_bytes = 0;       // of the arena; 0: auto
  int64_t dynamic_memory_bytes = 0;  // of dynamic pages, at most; 0: auto
  // Classes of room as they were asked for, for PlanBuckets; engine.bucket_tokens follows from
  // them.
  std::vector<int64_t> buckets_wanted;
  bool lock_memory = false;  // the arena, where the system lets us
  // segments follows from the plan; without effect where no sequence can reach engage_at.
  SparseAttentionOptions sparse = {};
  ForecastModel forecast = ForecastModel::kNone;
  std::string predictor_file;  // of kLstmV2; empty: the network that is built in
  // The costs that this model's rounds had when it last ran here, if it did.
  std::function<std::optional<CostModel>(ModelRunner& runner)> costs_of = nullptr;
};

// What the loader gets from them: the context as trained unless it is given, float32 keys and
// values where everything is float32.
LoadOptions LoadOptionsOf(const LoadEngineOptions& options, const ModelShape& shape);

// What this engine would take where `free_bytes` are free. `file` may be open by its header. With
// engine.dynamic there is no arena. Errors are PlanBuckets'; what doesn't fit is a plan too.
Result<EnginePlan> PlanEngine(const ModelFile& file, const ModelInfo& info,
                              const LoadEngineOptions& options, int64_t free_bytes);

// A loaded model without the loop, for callers that drive rounds themselves.
struct LoadedModel {
  std::unique_ptr<ModelFile> file;
  std::unique_ptr<ModelInfo> info;
  std::unique_ptr<ModelRunner> runner;
  EnginePlan plan;  // with what became of it
};

struct LoadedEngine {
  LoadedModel model;
  Status predictor_warning;        // why the forecast isn't the one asked for
  std::unique_ptr<Engine> engine;  // last: it stops before the model goes
};

// Refuses, before anything is taken, what doesn't fit into free memory.
Result<LoadedModel> OpenModel(ModelFile file, const LoadEngineOptions& options,
                              const LoadProgress& progress);

// The clock must outlive the engine.
Result<LoadedEngine> OpenEngine(ModelFile file, const LoadEngineOptions& options,
                                const Clock& clock, const LoadProgress& progress);

}  // namespace remontoir
