// Sizes by the same rules by which memory is taken later.
#include "model/model_memory.h"

#include <algorithm>
#include <limits>

#include "backend/activation_plan.h"
#include "backend/cpu_sparse_attention.h"
#include "kernels/packing.h"
#include "model/program_builder.h"

namespace remontoir {
namespace {

int64_t Clamped(__int128 bytes) {
  return static_cast<int64_t>(std::min<__int128>(bytes, std::numeric_limits<int64_t>::max()));
}

}  // namespace

ModelMemory PlanModelMemory(const ModelInfo& info, const LoadOptions& options, int32_t workers,
                            bool float32, bool experts_mapped) {
  const TensorInfo* embedding = info.tensors.Global(TensorRole::kTokenEmbedding);
  ModelMemory memory;
  memory.mapped_bytes = embedding->view.size_bytes;
  // A tensor alone can't overflow: its shape was checked against the hyperparameters' bounds.
  __int128 weights = 0;
  __int128 experts = 0;
  int64_t panel_bytes_max = 0;  // of mapped matrices: each worker packs one at a time
  info.tensors.ForEach([&](TensorRole role, const TensorInfo& tensor) {
    const TensorView& view = tensor.view;
    if (&tensor == embedding && !info.shape.tied_embedding) return;
    if (view.rank == 1) {
      weights += view.columns() * static_cast<int64_t>(sizeof(float));
      return;
    }
    const PackedLayout layout = PlanPacking(view.type, view.shape[1], view.columns(), float32);
    const bool of_experts = IsExpertMatrix(role);
    if (of_experts && experts_mapped) {
      memory.mapped_expert_bytes += view.size_bytes;
      panel_bytes_max = std::max(panel_bytes_max, layout.panel_bytes);
      return;
    }
    const __int128 bytes = static_cast<__int128>(layout.bytes()) * view.shape[2];
    weights += bytes;
    if (of_experts) experts += bytes;
  });
  memory.mapped_bytes += memory.mapped_expert_bytes;
  memory.weights_bytes = Clamped(weights);
  memory.expert_bytes = Clamped(experts);
  ModelWeights none;
  none.layers.resize(static_cast<size_t>(info.shape.layers));
  const Program program = BuildProgram(*info.family, info.shape, none);
  const KvLayout layout = MakeKvLayout(info.shape, options.kv_type);
  const int64_t activation_bytes =
      ActivationBytesMax(program, layout, MakeRoundLimits(info.shape, options), workers, float32);
  memory.activation_bytes =
      Clamped(static_cast<__int128>(activation_bytes) + panel_bytes_max * workers);
  if (options.sparse.engage_at > 0) {
    memory.segment_bytes =
        SealedLayoutOf(program, layout, options.sparse.block_keys).segment_bytes();
  }
  return memory;
}

}  // namespace remontoir
