// How much memory the keys and values get, decided before the first byte is taken.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace remontoir {

struct MemoryPlanInputs {
  int64_t page_bytes = 0;
  int32_t context_max = 0;  // positions of one sequence
  int32_t sequences_max = 0;
  int64_t free_bytes = 0;       // what the system could still give
  int64_t kv_memory_bytes = 0;  // kv_cache.memory; 0: auto
};

struct MemoryPlan {
  int32_t kv_page_count = 0;
  int64_t kv_bytes = 0;
};

// auto: the smaller of a quarter of free memory and what `sequences_max` full contexts need. An
// error says what is needed, what is free and which key to lower.
Result<MemoryPlan> PlanMemory(const MemoryPlanInputs& inputs);

// MemAvailable of this machine, or the limit of its control group where that is lower.
int64_t FreeMemoryBytes();

}  // namespace remontoir
