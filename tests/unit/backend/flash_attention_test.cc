// Facts about attention along random schedules: a dense masked softmax in float64, and whose affair
// a row's bits are.
#include "backend/flash_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/bits.h"
#include "tests/unit/backend/attention_problem.h"

namespace remontoir::testing {
namespace {

constexpr double kErrorMax = 5e-6;
constexpr double kLogErrorMax = 2e-5;

// REMONTOIR_ATTENTION_CASES random schedules; without it enough to meet every kind.
int32_t CaseCount() {
  const char* const text = std::getenv("REMONTOIR_ATTENTION_CASES");
  int32_t count = 72;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), count);
  return count;
}

void AddSequences(Draws& draws, AttentionProblem* problem) {
  // Mostly many short ones, sometimes keys beyond a partial.
  const bool long_keys = draws.Chance(0.25);
  const int32_t sequences = long_keys ? 1 : draws.Between(1, 4);
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t rows = draws.Below(long_keys ? 20 : 30);
    const int32_t past = draws.Chance(0.3) ? 0 : draws.Below(long_keys ? 2200 : 300);
    problem->cu_q.push_back(problem->cu_q.back() + rows);
    problem->cu_k.push_back(problem->cu_k.back() + rows + past);
  }
}

void AddDocuments(Draws& draws, AttentionProblem* problem) {
  for (size_t s = 0; s + 1 < problem->cu_k.size(); ++s) {
    int32_t document = draws.Below(5);
    for (int64_t key = problem->cu_k[s]; key < problem->cu_k[s + 1]; ++key) {
      if (draws.Chance(0.02)) document += draws.Between(1, 3);
      problem->documents.push_back(document);
    }
  }
  problem->mask.documents = problem->documents;
}

void AddBlockMask(Draws& draws, AttentionProblem* problem) {
  BlockMask& mask = problem->mask.blocks;
  const auto sequences = static_cast<int32_t>(problem->cu_q.size()) - 1;
  mask.sequences = draws.Chance(0.5) ? 1 : sequences;
  mask.heads = draws.OneOf(std::array{1, problem->kv_heads, problem->heads});
  mask.positions_per_block = draws.OneOf(std::array{8, 16, 64, 128});
  mask.query_blocks = problem->keys_max() / mask.positions_per_block + 1;
  mask.key_blocks = problem->keys_max() / problem->keys_per_block + 1;
  const double density = draws.OneOf(std::array{0.0, 0.05, 0.25, 0.5, 0.9});
  const int32_t entries = mask.sequences * mask.heads * mask.query_blocks * mask.key_blocks;
  for (int32_t i = 0; i < entries; ++i) problem->visible.push_back(draws.Chance(density) ? 1 : 0);
  mask.visible = problem->visible;
}

void MakeProblem(uint64_t seed, AttentionProblem* problem) {
  Draws draws(seed);
  problem->type = draws.OneOf(std::array{DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0});
  problem->kv_heads = draws.Between(1, 2);
  problem->heads = problem->kv_heads * draws.OneOf(std::array{1, 2, 3, 4});
  problem->width = draws.OneOf(std::array{64, 128, 20});
  problem->keys_per_block = draws.OneOf(std::array{16, 32, 64, 128});
  AddSequences(draws, problem);
  if (draws.Chance(0.4)) problem->mask.window = draws.Between(1, 400);
  if (draws.Chance(0.4)) AddDocuments(draws, problem);
  if (draws.Chance(0.7)) AddBlockMask(draws, problem);
  if (draws.Chance(0.2)) problem->soft_cap = 8;
  if (draws.Chance(0.2)) {
    for (int32_t h = 0; h < problem->heads; ++h) {
      problem->sink_logits.push_back(static_cast<float>(draws.Between(-20, 20)) / 8);
    }
  }
  problem->Fill(seed);
}

std::string Describe(const AttentionProblem& problem) {
  const BlockMask& mask = problem.mask.blocks;
  std::string words = std::string(Info(problem.type).name) + ", width " +
                      std::to_string(problem.width) + ", heads " + std::to_string(problem.heads) +
                      " on " + std::to_string(problem.kv_heads) + ", blocks of " +
                      std::to_string(problem.keys_per_block) + ", window " +
                      std::to_string(problem.mask.window);
  if (!problem.documents.empty()) words += ", documents";
  if (!problem.sink_logits.empty()) words += ", sinks";
  if (problem.soft_cap != 0) words += ", soft cap";
  if (!problem.visible.empty()) {
    words += ", masks of " + std::to_string(mask.heads) + " heads, " +
             std::to_string(mask.sequences) + " sequences, " +
             std::to_string(mask.positions_per_block) + " positions a block";
  }
  for (size_t s = 0; s + 1 < problem.cu_q.size(); ++s) {
    words += "; " + std::to_string(problem.cu_q[s + 1] - problem.cu_q[s]) + " rows of " +
             std::to_string(problem.cu_k[s + 1] - problem.cu_k[s]) + " keys";
  }
  return words;
}

// Every output of every row against the reference.
void ExpectDense(const AttentionProblem& problem, const AttentionResult& result) {
  const DenseReference reference(problem);
  const auto width = static_cast<size_t>(problem.width);
  for (size_t s = 0; s + 1 < problem.cu_q.size(); ++s) {
    for (int32_t row = problem.cu_q[s]; row < problem.cu_q[s + 1]; ++row) {
      for (int32_t head = 0; head < problem.heads; ++head) {
        const DenseReference::Row expected = reference.Attend(s, row, head);
        const auto i = static_cast<size_t>(row * problem.heads + head);
        for (size_t d = 0; d < width; ++d) {
          ASSERT_NEAR(static_cast<double>(result.out[i * width + d]), expected.out[d], kErrorMax)
              << "row " << row << " head " << head << " value " << d;
        }
        if (std::isinf(expected.lse)) {
          ASSERT_EQ(static_cast<double>(result.lse[i]), expected.lse);
        } else {
          ASSERT_NEAR(static_cast<double>(result.lse[i]), expected.lse, kLogErrorMax)
              << "row " << row << " head " << head;
        }
      }
    }
  }
}

TEST(FlashAttention, IsWithin5e6OfDensePrecisionAlongRandomSchedules) {
  FlashAttentionWorkspace workspace(2);
  for (int32_t seed = 0; seed < CaseCount(); ++seed) {
    AttentionProblem problem;
    MakeProblem(static_cast<uint64_t>(seed), &problem);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(problem));
    AttentionResult result;
    const Status status = Attend(problem, &workspace, &result);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectDense(problem, result);
    if (HasFatalFailure()) return;
  }
}

TEST(FlashAttention, HasTheSameBitsInEveryTableAndOnAnyThreads) {
  std::vector<std::unique_ptr<FlashAttentionWorkspace>> workspaces;
  workspaces.push_back(std::make_unique<FlashAttentionWorkspace>(1, ScalarKernels()));
  workspaces.push_back(std::make_unique<FlashAttentionWorkspace>(1));
  workspaces.push_back(std::make_unique<FlashAttentionWorkspace>(5));
  for (const KernelTable* table : {Avx2Kernels(), Avx512Kernels()}) {
    if (table == nullptr) continue;
    workspaces.push_back(std::make_unique<FlashAttentionWorkspace>(2, *table));
  }
  for (uint64_t seed = 1000; seed < 1024; ++seed) {
    AttentionProblem problem;
    MakeProblem(seed, &problem);
    SCOPED_TRACE(Describe(problem));
    AttentionResult expected;
    ASSERT_TRUE(Attend(problem, workspaces[0].get(), &expected).ok());
    for (size_t w = 1; w < workspaces.size(); ++w) {
      AttentionResult result;
      ASSERT_TRUE(Attend(problem, workspaces[w].get(), &result).ok());
      EXPECT_EQ(BitsOf(result.out), BitsOf(expected.out)) << "seed " << seed << " way " << w;
      EXPECT_EQ(BitsOf(result.lse), BitsOf(expected.lse)) << "seed " << seed << " way " << w;
    }
  }
}

// The problem of one row of a sequence: its own query and the keys up to it.
void MakeRowAlone(const AttentionProblem& whole, size_t sequence, int32_t row,
                  AttentionProblem* alone) {
  alone->type = whole.type;
  alone->kv_heads = whole.kv_heads;
  alone->heads = whole.heads;
  alone->width = whole.width;
  alone->keys_per_block = whole.keys_per_block;
  alone->scale = whole.scale;
  alone->soft_cap = whole.soft_cap;
  alone->sink_logits = whole.sink_logits;
  const int64_t first = whole.cu_k[sequence];
  const int64_t end = whole.cu_k[sequence + 1] - (whole.cu_q[sequence + 1] - row) + 1;
  alone->cu_q = {0, 1};
  alone->cu_k = {0, end - first};
  const auto cut = [](const std::vector<float>& rows, int64_t begin, int64_t last, int32_t width) {
    return std::vector<float>(rows.begin() + begin * width, rows.begin() + last * width);
  };
  alone->queries = cut(whole.queries, row, row + 1, whole.heads * whole.width);
  alone->keys = cut(whole.keys, first, end, whole.kv_heads * whole.width);
  alone->values = cut(whole.values, first, end, whole.kv_heads * whole.width);
  alone->mask = whole.mask;
  if (!whole.documents.empty()) {
    alone->documents.assign(whole.documents.begin() + first, whole.documents.begin() + end);
    alone->mask.documents = alone->documents;
  }
  if (whole.visible.empty()) return;
  BlockMask& mask = alone->mask.blocks;
  const auto entries =
      static_cast<std::ptrdiff_t>(mask.heads) * mask.query_blocks * mask.key_blocks;
  const auto s = mask.sequences == 1 ? 0 : static_cast<std::ptrdiff_t>(sequence);
  alone->visible.assign(whole.visible.begin() + s * entries,
                        whole.visible.begin() + (s + 1) * entries);
  mask.visible = alone->visible;
  mask.sequences = 1;
}

TEST(FlashAttention, OfARowIsTheSameAlone) {
  FlashAttentionWorkspace workspace;
  for (uint64_t seed = 2000; seed < 2024; ++seed) {
    AttentionProblem problem;
    MakeProblem(seed, &problem);
    AttentionResult together;
    ASSERT_TRUE(Attend(problem, &workspace, &together).ok());
    const auto row_values = static_cast<size_t>(problem.heads * problem.width);
    for (size_t s = 0; s + 1 < problem.cu_q.size(); ++s) {
      for (int32_t row = problem.cu_q[s]; row < problem.cu_q[s + 1]; ++row) {
        AttentionProblem alone;
        MakeRowAlone(problem, s, row, &alone);
        AttentionResult result;
        ASSERT_TRUE(Attend(alone, &workspace, &result).ok());
        ASSERT_EQ(BitsOf(result.out),
                  BitsOf(&together.out[static_cast<size_t>(row) * row_values], row_values))
            << "seed " << seed << " row " << row;
      }
    }
  }
}

TEST(FlashAttention, FullListsHaveTheSameBitsForEveryBlockSize) {
  FlashAttentionWorkspace workspace;
  for (uint64_t seed = 3000; seed < 3012; ++seed) {
    AttentionProblem problem;
    MakeProblem(seed, &problem);
    problem.visible.clear();
    problem.mask.blocks = {};
    AttentionResult expected;
    problem.keys_per_block = kKvPageTokens;
    ASSERT_TRUE(Attend(problem, &workspace, &expected).ok());
    for (const int32_t keys_per_block : {16, 32, 128, 1024}) {
      problem.keys_per_block = keys_per_block;
      AttentionResult result;
      ASSERT_TRUE(Attend(problem, &workspace, &result).ok());
      EXPECT_EQ(BitsOf(result.out), BitsOf(expected.out)) << keys_per_block;
    }
  }
}

TEST(FlashAttention, PagesInAnyOrderHaveTheBitsOfContiguousRows) {
  FlashAttentionWorkspace workspace;
  for (uint64_t seed = 4000; seed < 4008; ++seed) {
    AttentionProblem problem;
    MakeProblem(seed, &problem);
    AttentionResult expected;
    ASSERT_TRUE(Attend(problem, &workspace, &expected).ok());

    const KvLayout layout = problem.Layout();
    std::vector<KvPageId> table;
    std::vector<int32_t> begin = {0};
    for (size_t s = 0; s + 1 < problem.cu_k.size(); ++s) {
      const int64_t keys = problem.cu_k[s + 1] - problem.cu_k[s];
      for (int64_t p = 0; p * kKvPageTokens < keys; ++p) table.push_back(KvPageId(0));
      begin.push_back(static_cast<int32_t>(table.size()));
    }
    const auto pages = static_cast<int32_t>(table.size());
    for (int32_t p = 0; p < pages; ++p) table[static_cast<size_t>(p)] = KvPageId(pages - 1 - p);
    std::vector<std::byte> memory(static_cast<size_t>(pages * layout.page_bytes()),
                                  std::byte{0xff});
    AttentionResult result;
    TileScheduleBuilder builder(problem.Limits());
    AttentionBatch batch =
        BatchOf(problem, layout, builder.Build(problem.cu_q, problem.cu_k, problem.mask), &result);
    batch.kv_pages = {memory.data(), layout.page_bytes()};
    batch.page_count = pages;
    batch.page_table = table;
    batch.page_table_begin = begin;
    for (size_t s = 0; s + 1 < problem.cu_k.size(); ++s) {
      for (int64_t key = 0; key < problem.cu_k[s + 1] - problem.cu_k[s]; ++key) {
        const auto page = table[static_cast<size_t>(begin[s] + key / kKvPageTokens)];
        std::byte* at = batch.kv_pages.Page(page);
        const auto slot = static_cast<int>(key % kKvPageTokens);
        for (int32_t head = 0; head < problem.kv_heads; ++head) {
          const int64_t row = (problem.cu_k[s] + key) * problem.kv_heads + head;
          const auto first = static_cast<size_t>(row * problem.width);
          ScalarKernels().store_key(&problem.keys[first], problem.width, problem.type, slot,
                                    at + layout.key_offset(0, head));
          ScalarKernels().store_value(&problem.values[first], problem.width, problem.type, slot,
                                      at + layout.value_offset(0, head));
        }
      }
    }
    if (pages == 0) continue;
    const Status status = flash_attn_varlen_fwd_with_sparsity_mask(batch, &workspace);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(BitsOf(result.out), BitsOf(expected.out)) << "seed " << seed;
  }
}

// A small right batch that tests make wrong.
struct SmallBatch {
  SmallBatch() {
    problem.kv_heads = 1;
    problem.heads = 2;
    problem.cu_q = {0, 3};
    problem.cu_k = {0, 70};
    problem.Fill(1);
    schedule = builder.Build(problem.cu_q, problem.cu_k, 0);
    batch = BatchOf(problem, layout, schedule, &result);
  }
  Status Run() {
    return flash_attn_varlen_fwd_with_sparsity_mask(batch, {problem.keys, problem.values},
                                                    &workspace);
  }

  AttentionProblem problem;
  KvLayout layout =
      KvLayout({{.kv_heads = 1, .key_width = 64, .value_width = 64, .type = DType::kF32}});
  TileScheduleBuilder builder = TileScheduleBuilder(8, 2, 128, 64);
  TileSchedule schedule;
  AttentionResult result;
  AttentionBatch batch;
  FlashAttentionWorkspace workspace;
};

struct WrongBatch {
  const char* named;  // in the error
  void (*make)(SmallBatch&);
};

constexpr WrongBatch kWrongBatches[] = {
    {"layout", [](SmallBatch& b) { b.batch.layout = nullptr; }},
    {"layer", [](SmallBatch& b) { b.batch.layer = 1; }},
    {"heads", [](SmallBatch& b) { b.batch.heads = 0; }},
    {"queries", [](SmallBatch& b) { b.batch.queries = b.batch.queries.first(5); }},
    {"out", [](SmallBatch& b) { b.batch.out = b.batch.out.first(5); }},
    {"lse", [](SmallBatch& b) { b.batch.lse = b.batch.lse.first(5); }},
    {"sink_logits", [](SmallBatch& b) { b.batch.sink_logits = b.batch.queries.first(1); }},
    {"window", [](SmallBatch& b) { b.batch.window = -1; }},
    {"documents", [](SmallBatch& b) { b.batch.documents = b.problem.cu_q; }},
    {"cu_seqlens_q", [](SmallBatch& b) { b.batch.cu_seqlens_q = {}; }},
    {"cu_seqlens_q", [](SmallBatch& b) { b.problem.cu_q[1] = 71; }},
    {"cu_seqlens_q", [](SmallBatch& b) { b.problem.cu_k[1] = -1; }},
    {"contiguous", [](SmallBatch& b) { b.problem.keys.pop_back(); }},
    {"schedule", [](SmallBatch& b) { b.batch.schedule = nullptr; }},
    {"blocks of 16", [](SmallBatch& b) { b.schedule.keys_per_block = 48; }},
    {"lists for", [](SmallBatch& b) { b.schedule.heads = 3; }},
    {"entry of every kind", [](SmallBatch& b) { b.schedule.list_rank = {}; }},
    {"a group for every row",
     [](SmallBatch& b) {
       b.schedule.group_sequence = {};
       b.schedule.group_head = {};
       b.schedule.group_first_row = {};
       b.schedule.group_rows = {};
       b.schedule.list_rank = {};
       b.schedule.list_begin = b.schedule.list_begin.first(1);
     }},
};

TEST(FlashAttention, NamesWhatIsWrongWithABatch) {
  ASSERT_TRUE(SmallBatch().Run().ok());
  for (const WrongBatch& wrong : kWrongBatches) {
    SmallBatch small;
    wrong.make(small);
    const Status status = small.Run();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong.named;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(wrong.named));
  }
}

TEST(FlashAttention, NamesTheGroupWhoseListIsWrong) {
  struct Case {
    const char* what;
    std::vector<int32_t> block;
    int32_t rank;
    int32_t first_row;
  };
  const Case cases[] = {{"falling", {1, 0}, 0, 0},
                        {"twice the same", {1, 1}, 0, 0},
                        {"behind the keys", {0, 2}, 0, 0},
                        {"negative", {-1, 0}, 0, 0},
                        {"a rank above its block", {0, 1}, 1, 0},
                        {"a row of nobody", {0, 1}, 0, 2}};
  for (const Case& c : cases) {
    SmallBatch small;
    ASSERT_EQ(small.schedule.group_count(), 1);
    small.schedule.block = c.block;
    const std::vector<int32_t> rank = {c.rank};
    const std::vector<int32_t> first_row = {c.first_row};
    small.schedule.list_rank = rank;
    small.schedule.group_first_row = first_row;
    const Status status = small.Run();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.what;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("schedule, group 0")) << c.what;
  }
}

TEST(FlashAttention, NamesAPageThatIsNotThere) {
  SmallBatch small;
  std::vector<KvPageId> table = {KvPageId(0), KvPageId(2)};
  const std::vector<int32_t> begin = {0, 2};
  std::vector<std::byte> memory(static_cast<size_t>(2 * small.layout.page_bytes()));
  small.batch.kv_pages = {memory.data(), small.layout.page_bytes()};
  small.batch.page_count = 2;
  small.batch.page_table = table;
  small.batch.page_table_begin = begin;
  const Status status = flash_attn_varlen_fwd_with_sparsity_mask(small.batch, &small.workspace);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("page_table"));
  table[1] = KvPageId(1);
  EXPECT_TRUE(flash_attn_varlen_fwd_with_sparsity_mask(small.batch, &small.workspace).ok());
}

}  // namespace
}  // namespace remontoir::testing
