// Attention steps: every row's keys in partials of 1,024 at absolute positions, merged in order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/attention_items.h"
#include "backend/cpu_sparse_attention.h"
#include "backend/cpu_step.h"
#include "tensor/kv_layout.h"
#include "tensor/tile_schedule.h"

namespace remontoir {

// The visiting lists of a round for one window size, cut into partials: shared by all layers that
// have this window.
class WindowPlan {
 public:
  WindowPlan(int32_t window, const RoundLimits& limits);

  void Build(const RoundInputs& inputs);

  int32_t window() const { return window_; }
  const TileSchedule& schedule() const { return *schedule_; }
  const PartialPlan& partials() const { return partials_; }

 private:
  const int32_t window_;
  TileScheduleBuilder builder_;
  const TileSchedule* schedule_ = nullptr;
  PartialPlan partials_;
};

// Row groups of single rows that a round may have and still be split: they bound its scratch.
int64_t SplitGroupsMax(int32_t workers, int32_t kv_heads, int32_t sequences_max);

struct AttentionSetup {
  const KvLayout* layout = nullptr;
  const WindowPlan* plan = nullptr;
  AttentionScratch* scratch = nullptr;
  const ActivationMatrix* queries = nullptr;
  const ActivationMatrix* out = nullptr;
  const float* sink_logits = nullptr;  // [heads] or null
  SparseState* sparse = nullptr;       // null: the layer is exact
};

// Two steps: the tiles of AttentionItems and its merging tiles, if there are any.
std::vector<std::unique_ptr<Step>> MakeAttentionSteps(const RoundState& round,
                                                      const AttentionOp& op,
                                                      const AttentionSetup& setup);

}  // namespace remontoir
