// Which key blocks each group of query rows visits: the sparsity mask compiled into work lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace remontoir {

inline constexpr int kRowGroupPositions = 8;  // positions of a row group, at multiples of 8
// Positions, at multiples of 32, whose row groups stand together in a schedule: often their lists
// differ at the end only, by what a later group sees besides.
inline constexpr int kStretchPositions = 32;
inline constexpr int32_t kAllHeads = -1;

// A work item is one row group: up to 8 neighbouring positions of one sequence (times the query
// heads that share its list). Its list names the key blocks to visit, ascending; a block that
// isn't listed is never touched. Storage belongs to whoever made the lists, a TileScheduleBuilder
// mostly.
//
// Ranks count the blocks that a row group's mask shows from key 0 on, those that causality, window
// or documents hide from the group too: they say where tiles and partials of the softmax begin, so
// that a row's arithmetic doesn't depend on which rows share its group. With full lists a block's
// rank is the block itself. Lists that a whole group chose for itself begin with rank 0.
struct TileSchedule {
  int32_t keys_per_block = 0;
  // Heads that have lists of their own: 1 (all heads share), the KV heads or the query heads.
  int32_t heads = 1;
  std::span<const int32_t> group_sequence;  // [groups] index into the batch
  std::span<const int32_t> group_head;  // [groups] 0 ... heads - 1, or kAllHeads where heads = 1
  std::span<const int32_t> group_first_row;  // [groups] row of the batch
  std::span<const int32_t> group_rows;       // [groups] 1 ... kRowGroupPositions
  std::span<const int32_t> list_begin;       // [groups + 1] CSR into block and edge
  std::span<const int32_t> list_rank;        // [groups] rank of the list's first block
  std::span<const int32_t> block;            // key block of the sequence: keys [b * n, (b + 1) * n)
  std::span<const uint8_t> edge;             // 1 = some row may not see some key: needs the mask

  int group_count() const { return static_cast<int>(group_rows.size()); }
  std::span<const int32_t> list(int group) const {
    const auto g = static_cast<size_t>(group);
    const auto begin = static_cast<size_t>(list_begin[g]);
    return block.subspan(begin, static_cast<size_t>(list_begin[g + 1]) - begin);
  }
};

// Keys that a row at `position` sees: [begin, end).
struct KeyRange {
  int32_t begin = 0;
  int32_t end = 0;
};
// window = 0: all keys up to the row's own; else the last `window` of them.
KeyRange VisibleKeys(int32_t position, int32_t window);
// `documents` (empty: one document): the document of each key of the sequence, never falling. A row
// sees keys of its own document only.
KeyRange VisibleKeys(int32_t position, int32_t window, std::span<const int32_t> documents);

// The same keys counted along a group's list, in keys of the ranks: keys of listed blocks in
// [range.begin, range.end) stand at consecutive numbers [begin, end) of the result, which are the
// keys' own positions where the list has no gaps.
KeyRange AlongList(const TileSchedule& schedule, int group, KeyRange range);

// Which pairs of query block and key block are visited at all, whatever else lets rows see keys.
struct BlockMask {
  // [sequences][heads][query_blocks][key_blocks], 0 = masked. Empty: nothing is.
  std::span<const uint8_t> visible = {};
  int32_t sequences = 1;  // 1: the same for all; else those of the batch
  int32_t heads = 1;      // 1: the same for all; else the KV heads or the query heads
  int32_t query_blocks = 0;
  int32_t key_blocks = 0;
  int32_t positions_per_block = 0;  // of a query block: a multiple of kRowGroupPositions
  // Key blocks are those of the schedule.
};

// What hides keys from rows besides causality.
struct ScheduleMask {
  int32_t window = 0;  // 0: none
  // Empty, or the document of every key of the batch, sequence by sequence: see VisibleKeys.
  std::span<const int32_t> documents = {};
  BlockMask blocks = {};
};

// Bounds of any batch that a builder will see.
struct TileScheduleLimits {
  int32_t rows_max = 0;
  int32_t sequences_max = 0;
  int64_t context_max = 0;     // keys of one sequence
  int32_t keys_per_block = 0;  // 16, 32, 64, 128: a divisor or multiple of a page
  int32_t heads_max = 1;       // of block masks
};

// Builds schedules into storage taken once.
class TileScheduleBuilder {
 public:
  explicit TileScheduleBuilder(const TileScheduleLimits& limits);
  TileScheduleBuilder(int32_t rows_max, int32_t sequences_max, int64_t context_max,
                      int32_t keys_per_block)
      : TileScheduleBuilder(TileScheduleLimits{.rows_max = rows_max,
                                               .sequences_max = sequences_max,
                                               .context_max = context_max,
                                               .keys_per_block = keys_per_block}) {}

  // Whether Build takes this: InvalidArgument names the list that is wrong, ResourceExhausted the
  // bound that is met. For batches and masks from outside; Build holds them to be checked.
  Status Check(std::span<const int32_t> cu_seqlens_q, std::span<const int64_t> cu_seqlens_k,
               const ScheduleMask& mask) const;

  // Causal attention of rows to the keys that `mask` shows. cu_seqlens_q [b + 1] are the rows of
  // each sequence in the batch, cu_seqlens_k [b + 1] the running sum of keys after this round: the
  // rows of sequence s are its last positions. Row groups stand at absolute positions. Every row is
  // in one group for each head that has lists, the group's list may be empty. The groups of a head
  // in a stretch of kStretchPositions stand together, by position; of stretches that with the
  // longest list is first. The result is valid until the next Build.
  const TileSchedule& Build(std::span<const int32_t> cu_seqlens_q,
                            std::span<const int64_t> cu_seqlens_k, const ScheduleMask& mask);
  const TileSchedule& Build(std::span<const int32_t> cu_seqlens_q,
                            std::span<const int64_t> cu_seqlens_k, int32_t window) {
    return Build(cu_seqlens_q, cu_seqlens_k, ScheduleMask{.window = window});
  }

 private:
  struct Group {
    int32_t sequence;
    int32_t head;
    int32_t first_row;
    int32_t rows;
    int32_t first_block;       // of those that causality, window and documents leave
    int32_t end_block;         // behind the last of them
    KeyRange whole;            // keys that all rows see, documents and all
    int32_t stretch;           // of its positions
    int32_t blocks;            // in the list
    int32_t blocks_max;        // in the longest list of the stretch
    int32_t rank;              // of the first
    const uint8_t* mask_line;  // [key blocks] of the block mask; null: all are visible
  };
  // Rows of one sequence and their keys.
  struct Rows {
    int32_t sequence;
    int32_t first_row;
    int32_t count;
    int32_t first_position;
    std::span<const int32_t> documents;  // of the sequence
  };
  void AddGroups(const Rows& rows, int32_t head, const ScheduleMask& mask);
  void Compile(int32_t heads);

  const TileScheduleLimits limits_;
  std::vector<Group> groups_;
  std::vector<int32_t> sequence_, head_, first_row_, rows_, list_begin_, list_rank_, block_;
  std::vector<uint8_t> edge_;
  TileSchedule schedule_;
};

}  // namespace remontoir
