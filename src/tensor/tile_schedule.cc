// Visiting lists of a batch of sequences under causality, window, documents and a block mask,
// longest first.
#include "tensor/tile_schedule.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/check.h"

namespace remontoir {
namespace {

constexpr int32_t kKeysPerBlockMax = 1 << 20;

// Where the document of a key begins.
int32_t DocumentBegin(int32_t key, std::span<const int32_t> documents) {
  const int32_t document = documents[static_cast<size_t>(key)];
  const auto first = std::lower_bound(documents.begin(), documents.begin() + key, document);
  return static_cast<int32_t>(first - documents.begin());
}

// The line of a query block in a mask; null where all blocks are visible.
const uint8_t* MaskLine(const BlockMask& mask, int32_t sequence, int32_t head, int32_t position) {
  if (mask.visible.empty()) return nullptr;
  const int64_t s = mask.sequences == 1 ? 0 : sequence;
  const int64_t h = mask.heads == 1 ? 0 : head;
  const int64_t line =
      (s * mask.heads + h) * mask.query_blocks + position / mask.positions_per_block;
  return mask.visible.data() + line * mask.key_blocks;
}

int32_t CountVisible(const uint8_t* line, int32_t begin, int32_t end) {
  if (line == nullptr) return end - begin;
  return static_cast<int32_t>(
      std::count_if(line + begin, line + end, [](uint8_t visible) { return visible != 0; }));
}

Status CheckDocuments(std::span<const int64_t> cu_seqlens_k, std::span<const int32_t> documents) {
  if (documents.empty()) return Status::Ok();
  const auto keys = static_cast<size_t>(cu_seqlens_k.back());
  if (documents.size() != keys) {
    return InvalidArgument("documents: " + std::to_string(documents.size()) + " of them, wanted " +
                           std::to_string(keys) + ", one a key");
  }
  for (size_t s = 0; s + 1 < cu_seqlens_k.size(); ++s) {
    const auto first = documents.begin() + static_cast<std::ptrdiff_t>(cu_seqlens_k[s]);
    const auto end = documents.begin() + static_cast<std::ptrdiff_t>(cu_seqlens_k[s + 1]);
    if (!std::is_sorted(first, end)) {
      return InvalidArgument("documents: those of sequence " + std::to_string(s) +
                             " fall, wanted never");
    }
  }
  return Status::Ok();
}

}  // namespace

KeyRange VisibleKeys(int32_t position, int32_t window) {
  const int32_t end = position + 1;
  return {window > 0 ? std::max(0, end - window) : 0, end};
}

KeyRange VisibleKeys(int32_t position, int32_t window, std::span<const int32_t> documents) {
  KeyRange visible = VisibleKeys(position, window);
  if (!documents.empty()) {
    visible.begin = std::max(visible.begin, DocumentBegin(position, documents));
  }
  return visible;
}

KeyRange AlongList(const TileSchedule& schedule, int group, KeyRange range) {
  const std::span<const int32_t> list = schedule.list(group);
  if (list.empty()) return {};
  const int32_t rank = schedule.list_rank[static_cast<size_t>(group)];
  const auto length = static_cast<int32_t>(list.size());
  const int32_t keys = schedule.keys_per_block;
  if (rank == list.front() && list.back() - list.front() == length - 1) {
    const int32_t end = (rank + length) * keys;
    return {std::clamp(range.begin, rank * keys, end), std::clamp(range.end, rank * keys, end)};
  }
  // Rows mostly see from before the first listed block on, and to the last one.
  const auto along = [&](int32_t key) {
    if (key <= list.front() * keys) return rank * keys;
    const int32_t block = key / keys;
    if (block == list.back()) return (rank + length - 1) * keys + key % keys;
    if (block > list.back()) return (rank + length) * keys;
    const auto at = std::lower_bound(list.begin(), list.end(), block);
    const int32_t before = (rank + static_cast<int32_t>(at - list.begin())) * keys;
    return *at == block ? before + key % keys : before;
  };
  return {along(range.begin), along(range.end)};
}

TileScheduleBuilder::TileScheduleBuilder(const TileScheduleLimits& limits) : limits_(limits) {
  REM_CHECK(limits.rows_max > 0 && limits.sequences_max > 0 && limits.context_max > 0 &&
                limits.keys_per_block > 0 && limits.keys_per_block <= kKeysPerBlockMax &&
                limits.heads_max > 0,
            "bounds of a batch are positive");
  // r rows at any offset touch at most (r + 14) / 8 groups.
  const size_t groups = (static_cast<size_t>(limits.rows_max) / kRowGroupPositions +
                         2 * static_cast<size_t>(limits.sequences_max)) *
                        static_cast<size_t>(limits.heads_max);
  const auto list =
      static_cast<size_t>((limits.context_max + limits.keys_per_block - 1) / limits.keys_per_block);
  groups_.reserve(groups);
  sequence_.reserve(groups);
  head_.reserve(groups);
  first_row_.reserve(groups);
  rows_.reserve(groups);
  list_begin_.reserve(groups + 1);
  list_rank_.reserve(groups);
  block_.reserve(groups * list);
  edge_.reserve(groups * list);
}

Status TileScheduleBuilder::Check(std::span<const int32_t> cu_seqlens_q,
                                  std::span<const int64_t> cu_seqlens_k,
                                  const ScheduleMask& mask) const {
  if (cu_seqlens_q.empty() || cu_seqlens_q.size() != cu_seqlens_k.size() || cu_seqlens_q[0] != 0 ||
      cu_seqlens_k[0] != 0) {
    return InvalidArgument("cu_seqlens_q and cu_seqlens_k: of equal length and from 0 on, wanted");
  }
  const size_t sequences = cu_seqlens_q.size() - 1;
  if (sequences > static_cast<size_t>(limits_.sequences_max) ||
      cu_seqlens_q.back() > limits_.rows_max || mask.blocks.heads > limits_.heads_max) {
    return ResourceExhausted("a schedule of " + std::to_string(sequences) + " sequences, " +
                             std::to_string(cu_seqlens_q.back()) + " rows and masks of " +
                             std::to_string(mask.blocks.heads) +
                             " heads: " + std::to_string(limits_.sequences_max) + ", " +
                             std::to_string(limits_.rows_max) + " and " +
                             std::to_string(limits_.heads_max) + " were planned");
  }
  const BlockMask& blocks = mask.blocks;
  const bool masked = !blocks.visible.empty();
  int64_t keys_max = 0;
  for (size_t s = 0; s < sequences; ++s) {
    const int64_t rows = int64_t{cu_seqlens_q[s + 1]} - cu_seqlens_q[s];
    const int64_t keys = cu_seqlens_k[s + 1] - cu_seqlens_k[s];
    keys_max = std::max(keys_max, keys);
    if (rows < 0 || keys < rows) {
      return InvalidArgument("cu_seqlens: sequence " + std::to_string(s) + " has " +
                             std::to_string(rows) + " rows and " + std::to_string(keys) +
                             " keys, wanted a key for each of its rows");
    }
  }
  if (keys_max > limits_.context_max) {
    return ResourceExhausted("cu_seqlens_k: " + std::to_string(keys_max) + " keys, " +
                             std::to_string(limits_.context_max) + " were planned");
  }
  if (mask.window < 0) return InvalidArgument("window: " + std::to_string(mask.window));
  REM_RETURN_IF_ERROR(CheckDocuments(cu_seqlens_k, mask.documents));
  if (!masked) return Status::Ok();
  const auto of_batch = static_cast<int32_t>(sequences);
  if ((blocks.sequences != 1 && blocks.sequences != of_batch) || blocks.heads < 1 ||
      blocks.query_blocks < 1 || blocks.key_blocks < 1 || blocks.positions_per_block < 1 ||
      blocks.positions_per_block % kRowGroupPositions != 0 ||
      int64_t{blocks.query_blocks} * blocks.positions_per_block < keys_max ||
      int64_t{blocks.key_blocks} * limits_.keys_per_block < keys_max) {
    return InvalidArgument(
        "block mask: wanted 1 or " + std::to_string(of_batch) +
        " sequences, query blocks of a multiple of 8 positions, and blocks for all " +
        std::to_string(keys_max) + " keys");
  }
  const int64_t lines = int64_t{blocks.sequences} * blocks.heads * blocks.query_blocks;
  if (static_cast<int64_t>(blocks.visible.size()) / blocks.key_blocks != lines ||
      static_cast<int64_t>(blocks.visible.size()) % blocks.key_blocks != 0) {
    return InvalidArgument("block mask: " + std::to_string(blocks.visible.size()) +
                           " entries, wanted " + std::to_string(lines) + " lines of " +
                           std::to_string(blocks.key_blocks));
  }
  return Status::Ok();
}

const TileSchedule& TileScheduleBuilder::Build(std::span<const int32_t> cu_seqlens_q,
                                               std::span<const int64_t> cu_seqlens_k,
                                               const ScheduleMask& mask) {
  REM_CHECK(!cu_seqlens_q.empty() && cu_seqlens_q.size() == cu_seqlens_k.size(),
            "queries and keys have the same sequences");
  const int32_t heads = mask.blocks.visible.empty() ? 1 : mask.blocks.heads;
  groups_.clear();
  for (size_t s = 0; s + 1 < cu_seqlens_q.size(); ++s) {
    const int64_t keys = cu_seqlens_k[s + 1] - cu_seqlens_k[s];
    Rows rows{.sequence = static_cast<int32_t>(s),
              .first_row = cu_seqlens_q[s],
              .count = cu_seqlens_q[s + 1] - cu_seqlens_q[s],
              .first_position = 0,
              .documents = {}};
    REM_CHECK(rows.count >= 0 && keys >= rows.count, "a sequence has a key for each of its rows");
    rows.first_position = static_cast<int32_t>(keys) - rows.count;
    if (!mask.documents.empty()) {
      rows.documents =
          mask.documents.subspan(static_cast<size_t>(cu_seqlens_k[s]), static_cast<size_t>(keys));
    }
    for (int32_t head = 0; head < heads; ++head) AddGroups(rows, head, mask);
  }
  // No two groups are equal, so the order is the only one (std::stable_sort would allocate).
  std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
    return std::tuple(-a.blocks_max, a.sequence, a.stretch, a.head, a.first_row) <
           std::tuple(-b.blocks_max, b.sequence, b.stretch, b.head, b.first_row);
  });
  Compile(heads);
  return schedule_;
}

void TileScheduleBuilder::AddGroups(const Rows& rows, int32_t head, const ScheduleMask& mask) {
  const int32_t keys = limits_.keys_per_block;
  size_t stretch_begin = groups_.size();
  for (int32_t done = 0; done < rows.count;) {
    const int32_t position = rows.first_position + done;
    const int32_t count =
        std::min(rows.count - done, kRowGroupPositions - position % kRowGroupPositions);
    // The first row sees the earliest keys and ends first; what all rows see lies between.
    const KeyRange first = VisibleKeys(position, mask.window, rows.documents);
    const KeyRange last = VisibleKeys(position + count - 1, mask.window, rows.documents);
    Group group{.sequence = rows.sequence,
                .head = head,
                .first_row = rows.first_row + done,
                .rows = count,
                .first_block = first.begin / keys,
                .end_block = (last.end - 1) / keys + 1,
                .whole = {last.begin, first.end},
                .stretch = position / kStretchPositions,
                .blocks = 0,
                .blocks_max = 0,
                .rank = 0,
                .mask_line = MaskLine(mask.blocks, rows.sequence, head, position)};
    group.blocks = CountVisible(group.mask_line, group.first_block, group.end_block);
    group.rank = CountVisible(group.mask_line, 0, group.first_block);
    REM_CHECK(groups_.size() < groups_.capacity(), "more row groups than were planned");
    if (stretch_begin < groups_.size() && groups_[stretch_begin].stretch != group.stretch) {
      stretch_begin = groups_.size();
    }
    groups_.push_back(group);
    const int32_t longest = std::max(groups_[stretch_begin].blocks_max, group.blocks);
    for (size_t g = stretch_begin; g < groups_.size(); ++g) groups_[g].blocks_max = longest;
    done += count;
  }
}

void TileScheduleBuilder::Compile(int32_t heads) {
  sequence_.clear();
  head_.clear();
  first_row_.clear();
  rows_.clear();
  list_begin_.assign(1, 0);
  list_rank_.clear();
  block_.clear();
  edge_.clear();
  const int32_t keys = limits_.keys_per_block;
  for (const Group& group : groups_) {
    sequence_.push_back(group.sequence);
    head_.push_back(heads == 1 ? kAllHeads : group.head);
    first_row_.push_back(group.first_row);
    rows_.push_back(group.rows);
    REM_CHECK(block_.capacity() - block_.size() >= static_cast<size_t>(group.blocks),
              "longer lists than were planned");
    for (int32_t block = group.first_block; block < group.end_block; ++block) {
      if (group.mask_line != nullptr && group.mask_line[block] == 0) continue;
      const int64_t begin = int64_t{block} * keys;
      block_.push_back(block);
      edge_.push_back(begin < group.whole.begin || begin + keys > group.whole.end ? 1 : 0);
    }
    list_begin_.push_back(static_cast<int32_t>(block_.size()));
    list_rank_.push_back(group.rank);
  }
  schedule_ = {keys,  heads,       sequence_,  head_,  first_row_,
               rows_, list_begin_, list_rank_, block_, edge_};
}

}  // namespace remontoir
