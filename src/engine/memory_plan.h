// How much memory everything gets, decided before the first byte is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/kv_memory.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace remontoir {

struct MemoryPlanInputs {
  int64_t weights_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t expert_bytes = 0;  // of the weights: what engine.experts might leave in the file
  int64_t page_bytes = 0;
  int32_t context_max = 0;  // positions of one sequence
  int32_t sequences_max = 0;
  int64_t free_bytes = 0;         // what the system could still give, for all of these
  int64_t kv_memory_bytes = 0;    // kv_cache.memory; 0: auto
  int64_t dynamic_bytes_max = 0;  // kv_cache.dynamic_memory_max; 0: auto
  bool dynamic = false;           // kv_cache.strategy: no arena
  // Sparse attention: bytes of a sealed segment, 0 where there are none.
  int64_t segment_bytes = 0;
};

// A plan is always one that could run; whether it fits is CheckFits' to say.
struct MemoryPlan {
  int64_t weights_bytes = 0;
  int64_t activation_bytes = 0;
  int32_t kv_page_count = 0;  // of the arena
  int64_t kv_bytes = 0;
  int32_t dynamic_page_count = 0;  // asked of the system by requests, at most
  int64_t dynamic_bytes = 0;
  int32_t segment_count = 0;  // sealed
  int64_t sealed_bytes = 0;
  int64_t total_bytes = 0;  // of these five
  int64_t free_bytes = 0;
};

// The arena on auto: the smaller of a quarter of what weights and activations leave free and what
// `sequences_max` full contexts need, but a page a sequence at least. The dynamic pages on auto: a
// full context, or a quarter of what is left after the arena where that is less. An amount that is
// given is kept to, rounded down to whole pages. Sealed segments: those of the arena's tokens, and
// at least those of one full context; an arena on auto leaves room for its own. Sums end at
// INT64_MAX.
MemoryPlan PlanMemory(const MemoryPlanInputs& inputs);

// ResourceExhausted: what is needed, what is free and which keys to lower; or that the room is too
// small for a page a sequence, and which key to raise.
Status CheckFits(const MemoryPlan& plan, const MemoryPlanInputs& inputs);

// "1.25 GiB"
std::string GiB(int64_t bytes);

// MemAvailable of this machine, or what the limit of its control group leaves where that is lower.
int64_t FreeMemoryBytes();

// The whole plan of an engine: what `remontoir plan` and GET /v1/engine/plan show.
struct EnginePlan {
  int32_t context_max = 0;
  int32_t sequences_max = 0;
  int32_t round_tokens_max = 0;
  DType kv_type = DType::kF16;
  int64_t page_bytes = 0;              // of kKvPageTokens tokens
  int64_t mapped_bytes = 0;            // of the model file, read where they lie; in no sum
  int64_t mapped_expert_bytes = 0;     // of the mapped bytes: engine.experts
  int64_t missing_bytes = 0;           // of the model file, not there yet: it can't be loaded
  bool dynamic = false;                // kv_cache.strategy: no arena, so no classes either
  std::vector<int32_t> bucket_tokens;  // length of each class of room, ascending
  int32_t bucket_capacity = 0;         // leases of one class out at once
  std::vector<std::string> notes;      // what of the configuration was left out, for people
  MemoryPlan memory;
  Status fits = {};  // of CheckFits

  // Once the memory was taken: what became of it. Before: nothing of it is there.
  KvMemoryReport kv_memory;
};

// Tokens that all sequences together may hold by the strategy: in the arena, or without one in
// dynamic pages.
int64_t RoomTokens(const EnginePlan& plan);

}  // namespace remontoir
