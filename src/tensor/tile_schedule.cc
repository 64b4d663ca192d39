// Causal and windowed visiting lists of a batch of sequences, longest first.
#include "tensor/tile_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace remontoir {

KeyRange VisibleKeys(int32_t position, int32_t window) {
  const int32_t end = position + 1;
  return {window > 0 ? std::max(0, end - window) : 0, end};
}

TileScheduleBuilder::TileScheduleBuilder(int32_t rows_max, int32_t sequences_max,
                                         int64_t context_max, int32_t keys_per_block)
    : keys_per_block_(keys_per_block) {
  REM_CHECK(rows_max > 0 && sequences_max > 0 && context_max > 0 && keys_per_block > 0,
            "bounds of a batch are positive");
  // r rows at any offset touch at most (r + 14) / 8 groups.
  const size_t groups =
      static_cast<size_t>(rows_max) / kRowGroupPositions + 2 * static_cast<size_t>(sequences_max);
  const size_t list = static_cast<size_t>((context_max + keys_per_block - 1) / keys_per_block);
  groups_.reserve(groups);
  sequence_.reserve(groups);
  head_.reserve(groups);
  first_row_.reserve(groups);
  rows_.reserve(groups);
  list_begin_.reserve(groups + 1);
  block_.reserve(groups * list);
  edge_.reserve(groups * list);
}

const TileSchedule& TileScheduleBuilder::Build(std::span<const int32_t> cu_seqlens_q,
                                               std::span<const int64_t> cu_seqlens_k,
                                               int32_t window) {
  REM_CHECK(!cu_seqlens_q.empty() && cu_seqlens_q.size() == cu_seqlens_k.size(),
            "queries and keys have the same sequences");
  groups_.clear();
  for (size_t s = 0; s + 1 < cu_seqlens_q.size(); ++s) {
    const int32_t rows = cu_seqlens_q[s + 1] - cu_seqlens_q[s];
    const int64_t keys = cu_seqlens_k[s + 1] - cu_seqlens_k[s];
    REM_CHECK(rows >= 0 && keys >= rows, "a sequence has a key for each of its rows");
    AddGroups(static_cast<int32_t>(s), cu_seqlens_q[s], rows, static_cast<int32_t>(keys) - rows,
              window);
  }
  // The first row breaks ties, so the order is the stable one (std::stable_sort would allocate).
  std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
    return a.blocks != b.blocks ? a.blocks > b.blocks : a.first_row < b.first_row;
  });
  Compile(window);
  return schedule_;
}

void TileScheduleBuilder::AddGroups(int32_t sequence, int32_t first_row, int32_t rows,
                                    int32_t first_position, int32_t window) {
  for (int32_t done = 0; done < rows;) {
    const int32_t position = first_position + done;
    const int32_t count = std::min(rows - done, kRowGroupPositions - position % kRowGroupPositions);
    const int32_t first_block = VisibleKeys(position, window).begin / keys_per_block_;
    const int32_t last_block = (position + count - 1) / keys_per_block_;
    REM_CHECK(groups_.size() < groups_.capacity(), "more row groups than were planned");
    groups_.push_back({sequence, first_row + done, count, position, last_block - first_block + 1});
    done += count;
  }
}

void TileScheduleBuilder::Compile(int32_t window) {
  sequence_.clear();
  head_.clear();
  first_row_.clear();
  rows_.clear();
  list_begin_.assign(1, 0);
  block_.clear();
  edge_.clear();
  for (const Group& group : groups_) {
    sequence_.push_back(group.sequence);
    head_.push_back(kAllHeads);
    first_row_.push_back(group.first_row);
    rows_.push_back(group.rows);
    // The first row sees the earliest keys and ends first; what all rows see lies between.
    const KeyRange first = VisibleKeys(group.first_position, window);
    const KeyRange last = VisibleKeys(group.first_position + group.rows - 1, window);
    REM_CHECK(block_.capacity() - block_.size() >= static_cast<size_t>(group.blocks),
              "longer lists than were planned");
    for (int32_t i = 0; i < group.blocks; ++i) {
      const int32_t block = first.begin / keys_per_block_ + i;
      const int64_t begin = int64_t{block} * keys_per_block_;
      block_.push_back(block);
      edge_.push_back(begin < last.begin || begin + keys_per_block_ > first.end ? 1 : 0);
    }
    list_begin_.push_back(static_cast<int32_t>(block_.size()));
  }
  schedule_ = {keys_per_block_, sequence_, head_, first_row_, rows_, list_begin_, block_, edge_};
}

}  // namespace remontoir
