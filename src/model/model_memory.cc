// Sizes by the same rules by which memory is taken later.
#include "model/model_memory.h"

#include <algorithm>
#include <limits>

#include "backend/activation_plan.h"
#include "kernels/packing.h"
#include "model/program_builder.h"

namespace remontoir {

ModelMemory PlanModelMemory(const ModelInfo& info, const LoadOptions& options, int32_t workers,
                            bool float32) {
  const TensorInfo* embedding = info.tensors.Global(TensorRole::kTokenEmbedding);
  ModelMemory memory;
  memory.mapped_bytes = embedding->view.size_bytes;
  // A tensor alone can't overflow: its shape was checked against the hyperparameters' bounds.
  __int128 weights = 0;
  info.tensors.ForEach([&](const TensorInfo& tensor) {
    const TensorView& view = tensor.view;
    if (&tensor == embedding && !info.shape.tied_embedding) return;
    if (view.rank == 1) {
      weights += view.columns() * static_cast<int64_t>(sizeof(float));
      return;
    }
    const PackedLayout layout = PlanPacking(view.type, view.shape[1], view.columns(), float32);
    weights += static_cast<__int128>(layout.bytes()) * view.shape[2];
  });
  memory.weights_bytes =
      static_cast<int64_t>(std::min<__int128>(weights, std::numeric_limits<int64_t>::max()));
  ModelWeights none;
  none.layers.resize(static_cast<size_t>(info.shape.layers));
  memory.activation_bytes = ActivationBytesMax(
      BuildProgram(*info.family, info.shape, none), MakeKvLayout(info.shape, options.kv_type),
      MakeRoundLimits(info.shape, options), workers, float32);
  return memory;
}

}  // namespace remontoir
