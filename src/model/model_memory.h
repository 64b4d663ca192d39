// What a model takes besides keys and values, from its header alone.
#pragma once

#include <cstdint>

#include "model/model_info.h"
#include "model/model_loader.h"

namespace remontoir {

// Each at most INT64_MAX.
struct ModelMemory {
  int64_t weights_bytes = 0;        // packed, in the kernels' order
  int64_t mapped_bytes = 0;         // read from the file where they lie: embedding, mapped experts
  int64_t expert_bytes = 0;         // of the weights: matrices of experts, which might be mapped
  int64_t mapped_expert_bytes = 0;  // of the mapped bytes: matrices of experts
  int64_t activation_bytes = 0;     // for any round of these options; a bound
  int64_t segment_bytes = 0;        // of a sealed segment; 0: no layer is attended to sparsely
};

// The file may be open by its header. workers: the threads that will compute. With `float32`
// weights are packed and computed in it; with `experts_mapped` experts' matrices stay in the file.
ModelMemory PlanModelMemory(const ModelInfo& info, const LoadOptions& options, int32_t workers,
                            bool float32, bool experts_mapped);

}  // namespace remontoir
