// Which key blocks each group of query rows visits: the sparsity mask compiled into work lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace remontoir {

inline constexpr int kRowGroupPositions = 8;  // positions of a row group, at multiples of 8
inline constexpr int32_t kAllHeads = -1;

// A work item is one row group: up to 8 neighbouring positions of one sequence (times the query
// heads that share a KV head). Its list names the key blocks to visit, ascending; a block that
// isn't listed is never touched. Storage belongs to a TileScheduleBuilder.
struct TileSchedule {
  int32_t keys_per_block = 0;
  std::span<const int32_t> group_sequence;  // [groups] index into the batch
  std::span<const int32_t> group_head;      // [groups] KV head, or kAllHeads: the same list for all
  std::span<const int32_t> group_first_row;  // [groups] row of the batch
  std::span<const int32_t> group_rows;       // [groups] 1 ... kRowGroupPositions
  std::span<const int32_t> list_begin;       // [groups + 1] CSR into block and edge
  std::span<const int32_t> block;            // key block of the sequence: keys [b * n, (b + 1) * n)
  std::span<const uint8_t> edge;             // 1 = some row may not see some key: needs the mask

  int group_count() const { return static_cast<int>(group_rows.size()); }
};

// Keys that a row at `position` sees: [begin, end).
struct KeyRange {
  int32_t begin = 0;
  int32_t end = 0;
};
// window = 0: all keys up to the row's own; else the last `window` of them.
KeyRange VisibleKeys(int32_t position, int32_t window);

// Builds schedules into storage taken once.
class TileScheduleBuilder {
 public:
  // Bounds of any batch that Build will see.
  TileScheduleBuilder(int32_t rows_max, int32_t sequences_max, int64_t context_max,
                      int32_t keys_per_block);

  // Causal attention over full lists, windowed when window > 0. cu_seqlens_q [b + 1] are the rows
  // of each sequence in the batch, cu_seqlens_k [b + 1] the running sum of keys after this round:
  // the rows of sequence s are its last positions. Row groups stand at absolute positions. Longest
  // list first. The result is valid until the next Build.
  const TileSchedule& Build(std::span<const int32_t> cu_seqlens_q,
                            std::span<const int64_t> cu_seqlens_k, int32_t window);

 private:
  struct Group {
    int32_t sequence;
    int32_t first_row;
    int32_t rows;
    int32_t first_position;
    int32_t blocks;
  };
  void AddGroups(int32_t sequence, int32_t first_row, int32_t rows, int32_t first_position,
                 int32_t window);
  void Compile(int32_t window);

  const int32_t keys_per_block_;
  std::vector<Group> groups_;
  std::vector<int32_t> sequence_, head_, first_row_, rows_, list_begin_, block_;
  std::vector<uint8_t> edge_;
  TileSchedule schedule_;
};

}  // namespace remontoir
