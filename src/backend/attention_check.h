// Whether an attention batch from outside can be run.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/attention_batch.h"
#include "base/status.h"

namespace remontoir {

// kInvalidArgument names the member that is wrong. `paged`: kv_pages and page table are looked at
// too. `seen` is memory for the check of the schedule.
Status CheckAttentionBatch(const AttentionBatch& batch, bool paged, std::vector<uint8_t>* seen);

}  // namespace remontoir
