// File, info, plan, backend, runner, engine.
#include "engine/loaded_engine.h"

#include <string>
#include <utility>

#include "kv/kv_buckets.h"
#include "model/model_memory.h"

namespace remontoir {
namespace {

// The classes of room, and a note of those that no sequence could use.
Status PlanClasses(const LoadEngineOptions& options, EnginePlan& plan) {
  plan.dynamic = options.engine.dynamic;
  if (plan.dynamic) return Status::Ok();
  REM_ASSIGN_OR_RETURN(BucketPlan buckets, PlanBuckets(options.buckets_wanted, plan.context_max));
  plan.bucket_tokens = std::move(buckets.tokens);
  plan.bucket_capacity = options.engine.bucket_capacity;
  if (buckets.dropped.empty()) return Status::Ok();
  std::string lengths;
  for (const int64_t tokens : buckets.dropped) {
    lengths += (lengths.empty() ? "" : ", ") + std::to_string(tokens);
  }
  plan.notes.push_back(
      "kv_cache.prealloc_buckets: " + lengths + (buckets.dropped.size() == 1 ? " is" : " are") +
      " above the model's context of " + std::to_string(plan.context_max) + " and dropped");
  return Status::Ok();
}

// What mapped experts cost: whoever starts a server so should know.
void NoteMappedExperts(const LoadEngineOptions& options, const ModelShape& shape,
                       int64_t free_bytes, EnginePlan& plan) {
  if (!options.backend.experts_mapped) return;
  if (plan.mapped_expert_bytes == 0) {
    plan.notes.push_back("engine.experts: mapped has no effect, the model has no experts");
    return;
  }
  const double share = static_cast<double>(shape.experts_used) / shape.experts;
  const auto read = static_cast<int64_t>(share * static_cast<double>(plan.mapped_expert_bytes));
  std::string note = "engine.experts: mapped: " + GiB(plan.mapped_expert_bytes) +
                     " of expert matrices stay in the file; a token reads and repacks " +
                     GiB(read) + " of them, several times slower than resident ones";
  if (plan.mapped_expert_bytes > free_bytes) {
    note += ", and from the disk where the " + GiB(free_bytes) + " free don't hold them";
  }
  plan.notes.push_back(std::move(note));
}

}  // namespace

LoadOptions LoadOptionsOf(const LoadEngineOptions& options, const ModelShape& shape) {
  LoadOptions load;
  load.context_max = options.context_max > 0 ? options.context_max : shape.context_trained;
  load.rope = options.rope;
  load.kv_type = options.backend.compute == ComputeMode::kF32 ? DType::kF32 : options.kv_type;
  load.round_tokens_max = options.engine.round_tokens_max;
  load.sequences_max = options.engine.sequences_max;
  if (options.sparse.engage_at < load.context_max) load.sparse = options.sparse;
  return load;
}

Result<EnginePlan> PlanEngine(const ModelFile& file, const ModelInfo& info,
                              const LoadEngineOptions& options, int64_t free_bytes) {
  const LoadOptions load = LoadOptionsOf(options, info.shape);
  const RoundLimits limits = MakeRoundLimits(info.shape, load);
  const bool float32 = options.backend.compute == ComputeMode::kF32;
  const ModelMemory model = PlanModelMemory(info, load, CpuThreads(options.backend), float32,
                                            options.backend.experts_mapped);
  EnginePlan plan;
  plan.context_max = limits.context_max;
  plan.sequences_max = limits.sequences_max;
  plan.round_tokens_max = limits.rows_max;
  plan.kv_type = load.kv_type;
  plan.page_bytes = MakeKvLayout(info.shape, load.kv_type).page_bytes();
  plan.mapped_bytes = model.mapped_bytes;
  plan.mapped_expert_bytes = model.mapped_expert_bytes;
  plan.missing_bytes = file.missing_bytes();
  REM_RETURN_IF_ERROR(PlanClasses(options, plan));
  NoteMappedExperts(options, info.shape, free_bytes, plan);
  const MemoryPlanInputs inputs = {.weights_bytes = model.weights_bytes,
                                   .activation_bytes = model.activation_bytes,
                                   .expert_bytes = model.expert_bytes,
                                   .page_bytes = plan.page_bytes,
                                   .context_max = limits.context_max,
                                   .sequences_max = limits.sequences_max,
                                   .free_bytes = free_bytes,
                                   .kv_memory_bytes = options.kv_memory_bytes,
                                   .dynamic_bytes_max = options.dynamic_memory_bytes,
                                   .dynamic = plan.dynamic,
                                   .segment_bytes = model.segment_bytes};
  plan.memory = PlanMemory(inputs);
  plan.fits = CheckFits(plan.memory, inputs);
  return plan;
}

Result<LoadedModel> OpenModel(ModelFile file, const LoadEngineOptions& options,
                              const LoadProgress& progress) {
  LoadedModel model;
  model.file = std::make_unique<ModelFile>(std::move(file));
  REM_ASSIGN_OR_RETURN(ModelInfo info, ReadModelInfo(*model.file, options.compat));
  model.info = std::make_unique<ModelInfo>(std::move(info));
  REM_ASSIGN_OR_RETURN(model.plan,
                       PlanEngine(*model.file, *model.info, options, FreeMemoryBytes()));
  REM_RETURN_IF_ERROR(model.plan.fits);
  LoadOptions load = LoadOptionsOf(options, model.info->shape);
  load.kv_memory = {.arena_pages = model.plan.memory.kv_page_count,
                    .dynamic_pages = model.plan.memory.dynamic_page_count,
                    .lock = options.lock_memory};
  load.sparse.segments = model.plan.memory.segment_count;
  REM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(options.backend));
  REM_ASSIGN_OR_RETURN(model.runner,
                       LoadModel(*model.file, *model.info, std::move(backend), load, progress));
  model.plan.kv_memory = model.runner->backend().kv_memory_report();
  return model;
}

Result<LoadedEngine> OpenEngine(ModelFile file, const LoadEngineOptions& options,
                                const Clock& clock, const LoadProgress& progress) {
  LoadedEngine loaded;
  REM_ASSIGN_OR_RETURN(loaded.model, OpenModel(std::move(file), options, progress));
  EngineOptions engine = options.engine;
  engine.bucket_tokens = loaded.model.plan.bucket_tokens;
  if (options.forecast != ForecastModel::kNone) {
    OpenedPredictor opened =
        OpenArrivalPredictor(clock.Now(), {.model = options.forecast}, options.predictor_file);
    engine.predictor.emplace(std::move(opened.predictor));
    loaded.predictor_warning = std::move(opened.warning);
  }
  if (options.costs_of) {
    engine.costs = options.costs_of(*loaded.model.runner).value_or(engine.costs);
  }
  REM_ASSIGN_OR_RETURN(loaded.engine, Engine::Create(*loaded.model.runner, clock, engine,
                                                     loaded.model.plan.memory.kv_page_count));
  return loaded;
}

}  // namespace remontoir
