// Attention steps: every row's keys in partials of 1,024 at absolute positions, merged in order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/attention_batch.h"
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

  // One partial of a group's list.
  struct Partial {
    int32_t list_begin;  // into schedule().block
    int32_t blocks;
  };

  void Build(const RoundInputs& inputs);

  int32_t window() const { return window_; }
  const TileSchedule& schedule() const { return *schedule_; }
  // Partials of group g: partial_begin(g) ... partial_begin(g + 1).
  int32_t partial_begin(int32_t group) const { return partial_begin_[static_cast<size_t>(group)]; }
  const Partial& partial(int32_t index) const { return partials_[static_cast<size_t>(index)]; }
  int32_t partial_count() const { return static_cast<int32_t>(partials_.size()); }
  // The group that a partial belongs to.
  int32_t group_of(int32_t partial) const { return group_of_[static_cast<size_t>(partial)]; }
  // Sum of rows over all partials before this one; slot(partial_count()) is the total.
  int64_t slot(int32_t partial) const { return slot_[static_cast<size_t>(partial)]; }

 private:
  void CutIntoPartials();

  const int32_t window_;
  TileScheduleBuilder builder_;
  const TileSchedule* schedule_ = nullptr;
  std::vector<int32_t> partial_begin_;
  std::vector<Partial> partials_;
  std::vector<int32_t> group_of_;
  std::vector<int64_t> slot_;
};

// Memory for attention in flight: what the workers hold, and partials that wait to be merged.
class AttentionScratch {
 public:
  // For every worker, items of up to `rows` (row, head) pairs with values of this width.
  void ReserveWorkers(int32_t workers, int64_t rows, int64_t value_width);
  // Split partials: at most `slots` of `heads` rows with values of this width.
  void ReserveSplit(int64_t slots, int64_t heads, int64_t value_width);

  struct Worker {
    std::vector<AttentionRow> rows;
    std::vector<SoftmaxState> states, partial_states;
    std::vector<float> sums, partial_sums;
  };
  Worker& worker(int32_t index) { return workers_[static_cast<size_t>(index)]; }
  SoftmaxState* split_states() { return split_states_.data(); }
  float* split_sums() { return split_sums_.data(); }
  int64_t split_states_max() const { return static_cast<int64_t>(split_states_.size()); }
  int64_t split_sums_max() const { return static_cast<int64_t>(split_sums_.size()); }
  int64_t bytes() const;

 private:
  std::vector<Worker> workers_;
  std::vector<SoftmaxState> split_states_;
  std::vector<float> split_sums_;
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

// Two steps. With many items a worker walks an item's partials itself and the second step is empty;
// with few, partials are the tiles of the first step and the second merges them. Both ways run the
// same kernel on the same partials and merge them in the same order: the same bits.
std::vector<std::unique_ptr<Step>> MakeAttentionSteps(const RoundState& round,
                                                      const AttentionOp& op,
                                                      const AttentionSetup& setup);

}  // namespace remontoir
