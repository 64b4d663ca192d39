// A program compiled for the CPU: checked, planned and cut into steps, so that a round decides
// nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu_attention.h"
#include "backend/cpu_row_steps.h"
#include "backend/cpu_step.h"
#include "backend/cpu_weights.h"
#include "backend/memory_region.h"
#include "backend/step_profile.h"
#include "base/status.h"
#include "tensor/kv_layout.h"

namespace remontoir {

// Steps point into the other members: it stays where it was compiled.
struct CpuProgram {
  CpuProgram() = default;
  CpuProgram(const CpuProgram&) = delete;
  CpuProgram& operator=(const CpuProgram&) = delete;

  std::vector<ActivationMatrix> activations;  // by ActivationId
  ActivationMatrix logits;                    // [logit rows][vocabulary]
  std::unique_ptr<ExpertLoad> expert_load;    // null: nothing is routed
  std::deque<RopeTable> rope_tables;          // one for each distinct RopeParams
  std::deque<WindowPlan> windows;             // one for each distinct window
  AttentionScratch attention_scratch;
  SparseState sparse;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<StepDescription> descriptions;  // of each step
  MemoryRegion memory;                        // of all activations
  MemoryRegion panel_scratch;                 // of the workers, where experts' matrices are mapped
  int64_t activation_bytes = 0;
};

// Checks every operation against its activations, weights and KV layer; errors name them. `round`
// and `layout` must outlive the result; round.kernels and round.workers must be set.
Status CompileCpuProgram(const Program& program, const CpuWeights& weights, const KvLayout& layout,
                         const RoundLimits& limits, RoundState* round, CpuProgram* out);

}  // namespace remontoir
