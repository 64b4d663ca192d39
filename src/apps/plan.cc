// Sizes by the same rules by which memory is taken later.
#include "apps/plan.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "apps/local_model.h"
#include "apps/pull.h"
#include "base/clock.h"
#include "kernels/packing.h"
#include "model/program_builder.h"

namespace remontoir {
namespace {

struct WeightsPlan {
  int64_t packed_bytes = 0;  // in memory, in the kernels' order
  int64_t mapped_bytes = 0;  // read from the file row by row: the embedding
};

WeightsPlan PlanWeights(const ModelFile& file, const ModelInfo& info, bool float32) {
  const TensorInfo* embedding = info.tensors.Global(TensorRole::kTokenEmbedding);
  WeightsPlan plan;
  plan.mapped_bytes = embedding->view.size_bytes;
  for (const TensorInfo& tensor : file.tensors()) {
    const TensorView& view = tensor.view;
    if (tensor.name == embedding->name && !info.shape.tied_embedding) continue;
    if (view.rank == 1) {
      plan.packed_bytes += view.columns() * static_cast<int64_t>(sizeof(float));
      continue;
    }
    const PackedLayout layout = PlanPacking(view.type, view.shape[1], view.columns(), float32);
    plan.packed_bytes += layout.bytes() * view.shape[2];
  }
  return plan;
}

int64_t ActivationBytes(const ModelInfo& info, const RoundLimits& limits) {
  ModelWeights weights;
  weights.layers.resize(static_cast<size_t>(info.shape.layers));
  const Program program = BuildProgram(*info.family, info.shape, weights);
  int64_t values = int64_t{limits.logit_rows_max} * info.shape.vocabulary_size;
  for (const Activation& activation : program.activations) {
    const int64_t rows = activation.rows == RowSpace::kLogits ? limits.logit_rows_max
                         : activation.rows == RowSpace::kExperts
                             ? int64_t{limits.rows_max} * std::max(1, info.shape.experts_used)
                             : limits.rows_max;
    values += rows * activation.width;
  }
  return values * static_cast<int64_t>(sizeof(float));
}

void PrintLine(std::FILE* out, const char* what, int64_t bytes, const std::string& detail) {
  std::fprintf(out, "%-18s %10.1f MiB   %s\n", what, static_cast<double>(bytes) / (1 << 20),
               detail.c_str());
}

}  // namespace

Status Plan(const PlanOptions& options, std::FILE* out) {
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::string path,
                       LocateModel(options.engine.config.model.file, clock));
  REM_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::Open(path));
  REM_ASSIGN_OR_RETURN(const ModelInfo info, ReadModelInfo(file));
  const LoadEngineOptions engine = EngineOptionsOf(options.engine);
  const LoadOptions load = LoadOptionsOf(engine, info.shape);
  const RoundLimits limits = MakeRoundLimits(info.shape, load);
  const WeightsPlan weights = PlanWeights(file, info, engine.backend.compute == ComputeMode::kF32);
  const int64_t activation_bytes = ActivationBytes(info, limits);
  const int64_t free_bytes = FreeMemoryBytes();
  const KvLayout layout = MakeKvLayout(info.shape, load.kv_type);

  const std::string experts = info.shape.experts == 0
                                  ? "dense"
                                  : std::to_string(info.shape.experts_used) + " of " +
                                        std::to_string(info.shape.experts) + " experts";
  std::fprintf(out, "model              %s: %d layers, width %d, %s, context %d\n",
               info.shape.architecture.c_str(), info.shape.layers, info.shape.width,
               experts.c_str(), limits.context_max);
  PrintLine(out, "weights", weights.packed_bytes, "in the kernels' order");
  PrintLine(out, "embedding", weights.mapped_bytes, "read from the file as it is");
  PrintLine(out, "activations", activation_bytes,
            "rounds of " + std::to_string(limits.rows_max) + " tokens");
  PrintLine(out, "free", free_bytes, "now");
  REM_ASSIGN_OR_RETURN(const MemoryPlan plan,
                       PlanMemory({.page_bytes = layout.page_bytes(),
                                   .context_max = limits.context_max,
                                   .sequences_max = limits.sequences_max,
                                   .free_bytes = std::max<int64_t>(
                                       free_bytes - weights.packed_bytes - activation_bytes, 0),
                                   .kv_memory_bytes = engine.kv_memory_bytes}));
  PrintLine(out, "keys and values", plan.kv_bytes,
            std::to_string(int64_t{plan.kv_page_count} * kKvPageTokens) + " tokens of " +
                std::to_string(layout.token_bytes()) + " bytes in " +
                std::string(Info(load.kv_type).name));
  PrintLine(out, "in all", weights.packed_bytes + activation_bytes + plan.kv_bytes,
            "taken at start");
  return Status::Ok();
}

}  // namespace remontoir
