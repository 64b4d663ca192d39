// Attention of a batch as work items: row groups of one list and the heads that share it, key
// partial by key partial.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/cpu_step.h"
#include "kernels/kernel_table.h"
#include "tensor/tile_schedule.h"

namespace remontoir {

// Row groups that are computed together, at most, where the list of each begins like that of the
// one before: keys are read from far caches once for all of them.
inline constexpr int32_t kBundleGroups = kStretchPositions / kRowGroupPositions;

// The lists of a schedule, cut into partials of kKvPartialKeys keys of the ranks: at absolute
// positions where lists are full.
class PartialPlan {
 public:
  struct Partial {
    int32_t list_begin;  // into TileSchedule::block
    int32_t blocks;
    int32_t rank;  // of its first block
    int32_t group;
  };

  // Takes memory for that many row groups and partials in all.
  void Reserve(size_t groups, size_t partials);
  // Partials of this schedule.
  static size_t Count(const TileSchedule& schedule);

  // The schedule must fit what was reserved, and its blocks divide a partial.
  void Cut(const TileSchedule& schedule);

  // Partials of group g: partial_begin(g) ... partial_begin(g + 1).
  int32_t partial_begin(int32_t group) const { return partial_begin_[static_cast<size_t>(group)]; }
  const Partial& partial(int32_t index) const { return partials_[static_cast<size_t>(index)]; }
  int32_t partial_count() const { return static_cast<int32_t>(partials_.size()); }
  // Sum of rows over all partials before this one; slot(partial_count()) is the total.
  int64_t slot(int32_t partial) const { return slot_[static_cast<size_t>(partial)]; }
  // Neighbouring groups of one sequence and head, the list of each the one before, or that and
  // more: bundle b has groups bundle_begin(b) ... bundle_begin(b + 1).
  int32_t bundle_begin(int32_t bundle) const { return bundle_begin_[static_cast<size_t>(bundle)]; }
  int32_t bundle_count() const { return static_cast<int32_t>(bundle_begin_.size()) - 1; }

 private:
  std::vector<int32_t> partial_begin_, bundle_begin_;
  std::vector<Partial> partials_;
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

// Another way to attend for some row groups of batches whose lists are of all heads.
class GroupAttention {
 public:
  virtual ~GroupAttention() = default;
  // The same answer as long as the batch lasts.
  virtual bool Takes(int32_t group) const = 0;
  // The softmax of the rows that share the KV head: each position's query heads side by side.
  virtual void Attend(int32_t group, int32_t kv_head, std::span<const AttentionRow> rows,
                      int32_t worker, SoftmaxState* states, float* sums) = 0;
};

// Fewer items than this for each worker, and long lists are split.
inline constexpr int32_t kItemsPerWorker = 8;

// What the tiles of an attention step do. With many items a worker walks an item's partials itself,
// with very many those of a bundle of row groups; with few, partials are the tiles of a first step
// and a second one merges them. All ways run the same kernel on the same partials of a row and
// merge them in the same order: the same bits.
class AttentionItems {
 public:
  AttentionItems(const KernelTable& kernels, int32_t workers)
      : kernels_(kernels), workers_(workers) {}

  // All must stay as they are until the last tile is done; the scratch has room for the schedule's
  // row groups. Plans whatever the schedule and the batch say, which is to be right.
  void Begin(const AttentionBatch& batch, const PartialPlan& plan, AttentionScratch* scratch);
  // Writes the 8-bit form of the results too; null: no more.
  void QuantiseTo(const ActivationMatrix* matrix) { quantised_ = matrix; }
  // Lets `other` have the groups that it takes; null: no more.
  void ShareWith(GroupAttention* other) { other_ = other; }

  int32_t tiles() const { return split_ ? split_tiles_ : items_; }
  int32_t merge_tiles() const { return split_ ? items_ : 0; }
  void RunTile(int32_t tile, int32_t worker);
  void MergeTile(int32_t tile, int32_t worker);

 private:
  // The groups and query heads that go together, and the KV head that they share. The last group
  // has all keys that any of them sees.
  struct Item {
    int32_t group;  // the first
    int32_t groups;
    int32_t kv_head;
    int32_t first_head;
    int32_t heads;
  };
  // Items of a group, or of a bundle, are neighbours.
  int32_t items_per_group() const { return batch_.schedule->heads == 1 ? shape_.kv_heads : 1; }
  int32_t RowsOf(const Item& item) const;  // each of the item's heads
  int32_t PartialBegin(const Item& item) const {
    return plan_->partial_begin(item.group + item.groups - 1);
  }
  int32_t PartialEnd(const Item& item) const {
    return plan_->partial_begin(item.group + item.groups);
  }
  Item ItemOf(int32_t group, int32_t index) const;
  bool OtherTakesAnyOf(const Item& item) const;
  // Of all partials of a group, or of a bundle.
  Item ItemOfTile(int32_t tile) const;
  int FillRows(const Item& item, std::vector<AttentionRow>* rows) const;
  // One KV head of one sequence in its pages.
  struct HeadPages {
    KvPages memory;
    const KvPageId* table;
    int64_t keys;
    int64_t key_offset;
    int64_t value_offset;

    KeyPanel Panel(int64_t number) const;  // of the sequence's keys 16 * number and on
  };
  HeadPages PagesOf(const PartialPlan::Partial& run, int32_t kv_head) const;
  // The first tile of keys and values of a partial, of an item, of a split partial; false: none.
  using KeyTile = std::array<KeyPanel, kTilePanels>;
  void FirstTile(int32_t partial, int32_t kv_head, KeyTile* tile) const;
  bool FirstTileOfItem(int32_t index, KeyTile* tile) const;
  bool FirstTileOfSplitPartial(int32_t index, KeyTile* tile) const;
  // `work` has rows, their count and where results go; this adds the keys of the partial.
  void RunPartial(int32_t partial, int32_t kv_head, AttentionPartial work) const;
  void RunPages(const PartialPlan::Partial& run, const HeadPages& pages,
                AttentionPartial work) const;
  void RunPanels(const PartialPlan::Partial& run, const HeadPages& pages,
                 AttentionPartial work) const;
  void RunItem(const Item& item, int32_t tile, int32_t worker);
  void RunSplitPartial(int32_t partial, int32_t index, int32_t tile, int32_t worker);
  // Of row groups that see nothing.
  void FinishUnseen(const Item& item, int32_t worker);
  int64_t SplitRow(int32_t partial, const Item& item) const;
  void Merge(int row_count, const SoftmaxState* partial_states, const float* partial_sums,
             SoftmaxState* states, float* sums) const;
  void Finish(const Item& item, const SoftmaxState* states, const float* sums) const;
  // The item's heads of a row, which lie side by side.
  void FinishHeads(int64_t row, const Item& item, const SoftmaxState* states,
                   const float* sums) const;

  const KernelTable& kernels_;
  const int32_t workers_;
  AttentionBatch batch_;
  KvLayerShape shape_;
  void (*partial_kernel_)(const AttentionPartial&) = nullptr;
  const PartialPlan* plan_ = nullptr;
  AttentionScratch* scratch_ = nullptr;
  const ActivationMatrix* quantised_ = nullptr;
  GroupAttention* other_ = nullptr;
  int32_t items_ = 0;  // of groups, or of bundles
  int32_t split_tiles_ = 0;
  int32_t split_heads_ = 0;  // rows of a split partial for each of its row group's
  bool split_ = false;
  bool bundled_ = false;
};

}  // namespace remontoir
