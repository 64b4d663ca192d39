// File, info, plan, backend, runner, engine.
#include "engine/loaded_engine.h"

#include <algorithm>
#include <utility>

namespace remontoir {

LoadOptions LoadOptionsOf(const LoadEngineOptions& options, const ModelShape& shape) {
  LoadOptions load;
  load.context_max = options.context_max > 0 ? options.context_max : shape.context_trained;
  load.rope = options.rope;
  load.kv_type = options.backend.compute == ComputeMode::kF32 ? DType::kF32 : options.kv_type;
  load.round_tokens_max = options.engine.round_tokens_max;
  load.sequences_max = options.engine.sequences_max;
  return load;
}

Result<LoadedModel> OpenModel(ModelFile file, const LoadEngineOptions& options,
                              const LoadProgress& progress) {
  LoadedModel model;
  model.file = std::make_unique<ModelFile>(std::move(file));
  REM_ASSIGN_OR_RETURN(ModelInfo info, ReadModelInfo(*model.file));
  model.info = std::make_unique<ModelInfo>(std::move(info));
  LoadOptions load = LoadOptionsOf(options, model.info->shape);
  model.kv_type = load.kv_type;
  const KvLayout layout = MakeKvLayout(model.info->shape, load.kv_type);
  // Packed weights take about what the file takes; they come first.
  const int64_t free_bytes = FreeMemoryBytes() - model.file->size_bytes();
  REM_ASSIGN_OR_RETURN(model.plan, PlanMemory({.page_bytes = layout.page_bytes(),
                                               .context_max = load.context_max,
                                               .sequences_max = load.sequences_max,
                                               .free_bytes = std::max<int64_t>(free_bytes, 0),
                                               .kv_memory_bytes = options.kv_memory_bytes}));
  load.kv_page_count = model.plan.kv_page_count;
  REM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(options.backend));
  REM_ASSIGN_OR_RETURN(model.runner,
                       LoadModel(*model.file, *model.info, std::move(backend), load, progress));
  return model;
}

Result<LoadedEngine> OpenEngine(ModelFile file, const LoadEngineOptions& options,
                                const Clock& clock, const LoadProgress& progress) {
  LoadedEngine loaded;
  REM_ASSIGN_OR_RETURN(loaded.model, OpenModel(std::move(file), options, progress));
  REM_ASSIGN_OR_RETURN(loaded.engine, Engine::Create(*loaded.model.runner, clock, options.engine,
                                                     loaded.model.plan.kv_page_count));
  return loaded;
}

}  // namespace remontoir
