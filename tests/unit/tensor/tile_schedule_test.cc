// Facts about TileSchedule: every list against a brute-force visibility mask.
#include "tensor/tile_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace remontoir {
namespace {

struct Batch {
  std::vector<int32_t> cu_q = {0};
  std::vector<int64_t> cu_k = {0};

  void Add(int32_t rows, int64_t keys) {
    cu_q.push_back(cu_q.back() + rows);
    cu_k.push_back(cu_k.back() + keys);
  }
};

bool Sees(int64_t position, int64_t key, int32_t window) {
  return key <= position && (window == 0 || key > position - window);
}

// Checks one group of the schedule against the mask, key by key.
void CheckGroup(const TileSchedule& schedule, int group, const Batch& batch, int32_t window) {
  const auto s = static_cast<size_t>(schedule.group_sequence[group]);
  const int64_t keys = batch.cu_k[s + 1] - batch.cu_k[s];
  const int64_t offset = keys - (batch.cu_q[s + 1] - batch.cu_q[s]) - batch.cu_q[s];
  const int64_t first = schedule.group_first_row[group] + offset;
  const int64_t last = first + schedule.group_rows[group] - 1;
  EXPECT_EQ(first / kRowGroupPositions, last / kRowGroupPositions);
  EXPECT_EQ(schedule.group_head[group], kAllHeads);

  std::vector<int32_t> expected_blocks;
  std::vector<uint8_t> expected_edges;
  const int64_t n = schedule.keys_per_block;
  for (int64_t block = 0; block * n < keys; ++block) {
    int seen = 0;
    for (int64_t key = block * n; key < (block + 1) * n; ++key) {
      for (int64_t p = first; p <= last; ++p) seen += Sees(p, key, window) ? 1 : 0;
    }
    if (seen == 0) continue;
    expected_blocks.push_back(static_cast<int32_t>(block));
    expected_edges.push_back(seen < n * (last - first + 1) ? 1 : 0);
  }
  const auto begin = static_cast<size_t>(schedule.list_begin[group]);
  const auto count = static_cast<size_t>(schedule.list_begin[group + 1]) - begin;
  const auto blocks = schedule.block.subspan(begin, count);
  const auto edges = schedule.edge.subspan(begin, count);
  EXPECT_EQ(std::vector<int32_t>(blocks.begin(), blocks.end()), expected_blocks);
  EXPECT_EQ(std::vector<uint8_t>(edges.begin(), edges.end()), expected_edges);
}

// Stretches stand together, row after row, that with the longest list first.
void CheckOrder(const TileSchedule& schedule, const Batch& batch) {
  const auto stretch_of = [&](int group) {
    const auto s = static_cast<size_t>(schedule.group_sequence[group]);
    const int64_t keys = batch.cu_k[s + 1] - batch.cu_k[s];
    const int64_t position = keys - (batch.cu_q[s + 1] - schedule.group_first_row[group]);
    return std::pair(schedule.group_sequence[group], position / kStretchPositions);
  };
  std::set<std::pair<int32_t, int64_t>> seen;
  size_t longest_before = std::numeric_limits<size_t>::max();
  for (int group = 0; group < schedule.group_count();) {
    const auto stretch = stretch_of(group);
    EXPECT_TRUE(seen.insert(stretch).second) << "groups of a stretch stand together";
    size_t longest = 0;
    const int first = group;
    for (; group < schedule.group_count() && stretch_of(group) == stretch; ++group) {
      longest = std::max(longest, schedule.list(group).size());
      if (group == first) continue;
      EXPECT_LT(schedule.group_first_row[group - 1], schedule.group_first_row[group]);
    }
    EXPECT_GE(longest_before, longest) << "longest first";
    longest_before = longest;
  }
}

void CheckSchedule(const TileSchedule& schedule, const Batch& batch, int32_t window) {
  std::vector<int> times_covered(static_cast<size_t>(batch.cu_q.back()));
  for (int group = 0; group < schedule.group_count(); ++group) {
    CheckGroup(schedule, group, batch, window);
    for (int32_t r = 0; r < schedule.group_rows[group]; ++r) {
      ++times_covered[static_cast<size_t>(schedule.group_first_row[group] + r)];
    }
  }
  EXPECT_EQ(times_covered, std::vector<int>(times_covered.size(), 1));
  CheckOrder(schedule, batch);
}

TEST(VisibleKeys, AreTheLastOfTheWindowUpToTheRow) {
  struct Case {
    int32_t position, window, begin, end;
  };
  for (const Case& c : {Case{0, 0, 0, 1}, Case{9, 0, 0, 10}, Case{9, 4, 6, 10}, Case{2, 4, 0, 3},
                        Case{3, 4, 0, 4}, Case{4, 4, 1, 5}, Case{7, 1, 7, 8}}) {
    const KeyRange range = VisibleKeys(c.position, c.window);
    EXPECT_EQ(range.begin, c.begin);
    EXPECT_EQ(range.end, c.end);
  }
}

TEST(TileSchedule, MatchesTheMaskForRandomBatches) {
  std::mt19937 random(20261129);
  const auto below = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  for (int trial = 0; trial < 60; ++trial) {
    Batch batch;
    const int32_t sequences = 1 + below(5);
    for (int32_t s = 0; s < sequences; ++s) {
      const int32_t rows = below(40);
      batch.Add(rows, rows + below(300));
    }
    const int32_t window = trial % 3 == 0 ? 0 : 1 + below(200);
    const int32_t keys_per_block = trial % 2 == 0 ? 64 : 16;
    TileScheduleBuilder builder(std::max(1, batch.cu_q.back()), sequences, 340, keys_per_block);
    CheckSchedule(builder.Build(batch.cu_q, batch.cu_k, window), batch, window);
  }
}

// What hides keys in the tests below: documents, and a block mask for each sequence and head.
struct Hiding {
  std::vector<int32_t> documents;
  std::vector<uint8_t> visible;
  ScheduleMask mask;

  bool Shows(const Batch& batch, size_t s, int32_t head, int64_t position, int64_t key,
             int32_t keys_per_block) const {
    if (!Sees(position, key, mask.window)) return false;
    const auto first = batch.cu_k[s];
    if (!documents.empty() && documents[static_cast<size_t>(first + key)] !=
                                  documents[static_cast<size_t>(first + position)]) {
      return false;
    }
    return BlockShown(s, head, position, key / keys_per_block);
  }
  bool BlockShown(size_t s, int32_t head, int64_t position, int64_t block) const {
    const BlockMask& m = mask.blocks;
    const int64_t line = (static_cast<int64_t>(s) * m.heads + head) * m.query_blocks +
                         position / m.positions_per_block;
    return visible[static_cast<size_t>(line * m.key_blocks + block)] != 0;
  }
};

void CheckHiding(const TileSchedule& schedule, const Batch& batch, const Hiding& hiding) {
  const int32_t n = schedule.keys_per_block;
  std::vector<int> times_covered(static_cast<size_t>(batch.cu_q.back() * schedule.heads));
  for (int group = 0; group < schedule.group_count(); ++group) {
    const auto s = static_cast<size_t>(schedule.group_sequence[group]);
    const int32_t head = schedule.group_head[group];
    const auto keys = static_cast<int32_t>(batch.cu_k[s + 1] - batch.cu_k[s]);
    const int32_t first = keys - (batch.cu_q[s + 1] - schedule.group_first_row[group]);
    std::vector<int32_t> expected;
    std::vector<uint8_t> edges;
    int32_t rank = -1;
    int32_t shown = 0;
    for (int32_t block = 0; block * n < keys; ++block) {
      int seen = 0;
      for (int32_t key = block * n; key < std::min(keys, (block + 1) * n); ++key) {
        for (int32_t r = 0; r < schedule.group_rows[group]; ++r) {
          seen += hiding.Shows(batch, s, head, first + r, key, n) ? 1 : 0;
        }
      }
      if (seen > 0) {
        expected.push_back(block);
        edges.push_back(seen < n * schedule.group_rows[group] ? 1 : 0);
        if (rank < 0) rank = shown;
      }
      shown += hiding.BlockShown(s, head, first, block) ? 1 : 0;
    }
    const auto list = schedule.list(group);
    ASSERT_EQ(std::vector<int32_t>(list.begin(), list.end()), expected);
    const auto edge =
        schedule.edge.subspan(static_cast<size_t>(schedule.list_begin[group]), list.size());
    ASSERT_EQ(std::vector<uint8_t>(edge.begin(), edge.end()), edges);
    if (rank >= 0) {
      ASSERT_EQ(schedule.list_rank[group], rank);
    }
    for (int32_t r = 0; r < schedule.group_rows[group]; ++r) {
      const int32_t row = schedule.group_first_row[group] + r;
      ++times_covered[static_cast<size_t>(row * schedule.heads + head)];
    }
  }
  EXPECT_EQ(times_covered, std::vector<int>(times_covered.size(), 1));
}

TEST(TileSchedule, FoldsDocumentsAndABlockMaskIntoTheLists) {
  std::mt19937 random(20261130);
  const auto below = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  for (int trial = 0; trial < 40; ++trial) {
    Batch batch;
    const int32_t sequences = 1 + below(3);
    int32_t keys_max = 1;
    for (int32_t s = 0; s < sequences; ++s) {
      const int32_t rows = below(40);
      const int32_t keys = rows + below(300);
      batch.Add(rows, keys);
      keys_max = std::max(keys_max, keys);
    }
    const int32_t keys_per_block = 16 << below(4);
    Hiding hiding;
    hiding.mask.window = trial % 3 == 0 ? 1 + below(200) : 0;
    if (trial % 2 == 0) {
      int32_t document = 0;
      for (int64_t key = 0; key < batch.cu_k.back(); ++key) {
        hiding.documents.push_back(document += below(40) == 0 ? 1 : 0);
      }
      hiding.mask.documents = hiding.documents;
    }
    BlockMask& blocks = hiding.mask.blocks;
    blocks.sequences = sequences;
    blocks.heads = 2;
    blocks.positions_per_block = 8 << below(4);
    blocks.query_blocks = keys_max / blocks.positions_per_block + 1;
    blocks.key_blocks = keys_max / keys_per_block + 1;
    const int32_t entries = sequences * 2 * blocks.query_blocks * blocks.key_blocks;
    const auto odds = static_cast<uint32_t>(1 + below(6));
    for (int32_t i = 0; i < entries; ++i) hiding.visible.push_back(below(odds) == 0 ? 1 : 0);
    blocks.visible = hiding.visible;
    TileScheduleBuilder builder({.rows_max = std::max(1, batch.cu_q.back()),
                                 .sequences_max = sequences,
                                 .context_max = 340,
                                 .keys_per_block = keys_per_block,
                                 .heads_max = 2});
    const Status status = builder.Check(batch.cu_q, batch.cu_k, hiding.mask);
    ASSERT_TRUE(status.ok()) << status.message();
    CheckHiding(builder.Build(batch.cu_q, batch.cu_k, hiding.mask), batch, hiding);
    if (HasFatalFailure()) return;
  }
}

TEST(TileSchedule, CheckNamesWhatIsWrong) {
  TileScheduleBuilder builder(
      {.rows_max = 8, .sequences_max = 2, .context_max = 128, .keys_per_block = 64});
  const std::vector<int32_t> falling = {1, 0, 0, 0};
  const std::vector<uint8_t> visible(4, 1);
  struct Case {
    const char* named;
    StatusCode code;
    std::vector<int32_t> cu_q;
    std::vector<int64_t> cu_k;
    ScheduleMask mask;
  };
  const BlockMask fitting = {
      .visible = visible, .query_blocks = 2, .key_blocks = 2, .positions_per_block = 64};
  BlockMask odd = fitting;
  odd.positions_per_block = 60;
  BlockMask few = fitting;
  few.query_blocks = 3;
  BlockMask heads = fitting;
  heads.heads = 2;
  BlockMask sequences = fitting;
  sequences.sequences = 3;
  const Case cases[] = {
      {"cu_seqlens", StatusCode::kInvalidArgument, {0, 1}, {0}, {}},
      {"cu_seqlens", StatusCode::kInvalidArgument, {1, 2}, {0, 4}, {}},
      {"sequence 0", StatusCode::kInvalidArgument, {0, 5}, {0, 4}, {}},
      {"128 were planned", StatusCode::kResourceExhausted, {0, 1}, {0, 129}, {}},
      {"were planned", StatusCode::kResourceExhausted, {0, 9}, {0, 100}, {}},
      {"were planned", StatusCode::kResourceExhausted, {0, 1}, {0, 100}, {.blocks = heads}},
      {"window", StatusCode::kInvalidArgument, {0, 1}, {0, 4}, {.window = -1}},
      {"documents", StatusCode::kInvalidArgument, {0, 1}, {0, 5}, {.documents = falling}},
      {"documents", StatusCode::kInvalidArgument, {0, 1}, {0, 4}, {.documents = falling}},
      {"block mask", StatusCode::kInvalidArgument, {0, 1}, {0, 100}, {.blocks = odd}},
      {"block mask", StatusCode::kInvalidArgument, {0, 1}, {0, 100}, {.blocks = few}},
      {"block mask", StatusCode::kInvalidArgument, {0, 1}, {0, 100}, {.blocks = sequences}},
  };
  EXPECT_TRUE(
      builder.Check(std::vector<int32_t>{0, 8}, std::vector<int64_t>{0, 128}, {.blocks = fitting})
          .ok());
  for (const Case& c : cases) {
    const Status status = builder.Check(c.cu_q, c.cu_k, c.mask);
    EXPECT_EQ(status.code(), c.code) << c.named;
    EXPECT_NE(status.message().find(c.named), std::string::npos) << status.message();
  }
}

TEST(TileSchedule, OneBuilderServesBatchAfterBatchInTheSameStorage) {
  TileScheduleBuilder builder(64, 8, 1024, 64);
  const int32_t* storage = nullptr;
  for (int32_t rows : {64, 1, 17, 64}) {
    Batch batch;
    batch.Add(rows, 1024);
    const TileSchedule& schedule = builder.Build(batch.cu_q, batch.cu_k, 0);
    CheckSchedule(schedule, batch, 0);
    if (storage == nullptr) storage = schedule.block.data();
    EXPECT_EQ(schedule.block.data(), storage);
  }
}

TEST(TileSchedule, TheWorstBatchWithinTheBoundsFits) {
  // Two rows that straddle a group border in every sequence.
  TileScheduleBuilder builder(16, 8, 1024, 64);
  Batch batch;
  for (int s = 0; s < 8; ++s) batch.Add(2, 1017);
  const TileSchedule& schedule = builder.Build(batch.cu_q, batch.cu_k, 0);
  EXPECT_EQ(schedule.group_count(), 16);
  CheckSchedule(schedule, batch, 0);
}

TEST(TileSchedule, AWindowKeepsListsShort) {
  TileScheduleBuilder builder(8, 1, 100'000, 64);
  Batch batch;
  batch.Add(1, 100'000);
  const TileSchedule& schedule = builder.Build(batch.cu_q, batch.cu_k, 128);
  ASSERT_EQ(schedule.group_count(), 1);
  EXPECT_LE(schedule.list_begin[1], 3);
}

TEST(TileScheduleDeathTest, ABatchBeyondTheBoundsIsABug) {
  TileScheduleBuilder builder(8, 1, 64, 64);
  Batch batch;
  batch.Add(1, 300);
  EXPECT_DEATH(builder.Build(batch.cu_q, batch.cu_k, 0), "longer lists than were planned");
}

}  // namespace
}  // namespace remontoir
