// Facts about the attention kernel: accuracy, and that a row's bits are its own affair.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "kernels/kernel_table.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

// One KV head: query rows at the last positions of a sequence, `heads` rows a position.
struct AttentionCase {
  const char* name;
  DType type;
  int key_width;
  int value_width;
  int heads;
  int positions;  // rows stand at the last `positions` of `keys`
  int keys;
  int window = 0;
  float soft_cap = 0;
  bool sink = false;
  float score_factor_step = 0;  // from one position's score factor to the next one's
};

constexpr AttentionCase kCases[] = {
    {"one_key", DType::kF32, 64, 64, 1, 1, 1},
    {"decode_f32", DType::kF32, 64, 64, 3, 1, 200},
    {"decode_f16_long", DType::kF16, 64, 64, 3, 1, 2500},
    {"prefill_f32", DType::kF32, 64, 64, 3, 8, 200},
    {"prefill_f16_across_a_page", DType::kF16, 128, 128, 2, 8, 131},
    {"prefill_bf16_across_a_partial", DType::kBF16, 32, 32, 1, 7, 1027},
    {"odd_widths", DType::kF16, 20, 45, 4, 5, 77},
    {"tiny_heads", DType::kF32, 4, 4, 2, 8, 30},
    {"wide_value", DType::kBF16, 96, 80, 5, 2, 300},
    {"window", DType::kF32, 64, 64, 3, 8, 300, 33},
    {"narrow_window", DType::kF16, 64, 64, 1, 8, 150, 3},
    {"window_across_a_partial", DType::kF16, 64, 64, 2, 4, 1100, 100},
    {"soft_cap", DType::kF32, 64, 64, 3, 6, 100, 0, 5},
    {"sink", DType::kF32, 64, 64, 3, 6, 100, 20, 0, true},
    {"decode_q8_0_long", DType::kQ8_0, 64, 64, 3, 1, 2500},
    {"prefill_q8_0_across_a_page", DType::kQ8_0, 128, 128, 2, 8, 131},
    {"one_q8_0_row", DType::kQ8_0, 256, 256, 1, 1, 200},
    {"q8_0_of_short_last_blocks", DType::kQ8_0, 80, 80, 4, 5, 77},
    {"q8_0_of_odd_widths", DType::kQ8_0, 20, 45, 4, 5, 77},
    {"q8_0_window_across_a_partial", DType::kQ8_0, 64, 96, 2, 4, 1100, 100},
    {"all_of_it_in_q8_0", DType::kQ8_0, 48, 48, 4, 8, 1500, 1100, 30, true},
    {"all_of_it", DType::kBF16, 48, 48, 4, 8, 1500, 1100, 30, true},
    {"score_factors", DType::kF32, 64, 64, 3, 6, 200, 0, 0, false, 0.125F},
    {"score_factors_of_whole_blocks", DType::kF16, 64, 64, 2, 4, 1100, 0, 0, false, 0.125F},
    {"score_factors_after_a_cap", DType::kBF16, 64, 64, 3, 8, 300, 0, 5, false, 0.125F},
};

// The pages of one head. What no token was stored to is NaN in every type.
class Pages {
 public:
  Pages(const KernelTable& table, const AttentionCase& c)
      : layout_({{.kv_heads = 1,
                  .key_width = c.key_width,
                  .value_width = c.value_width,
                  .type = c.type}}),
        key_bytes_(layout_.value_offset(0, 0)),
        page_bytes_(layout_.page_bytes()),
        bytes_(static_cast<size_t>(page_bytes_ * ((c.keys + kKvPageTokens - 1) / kKvPageTokens)),
               std::byte{0xff}) {
    for (int k = 0; k < c.keys; ++k) Store(table, c, k, Key(c, k), Value(c, k));
  }

  static std::vector<float> Key(const AttentionCase& c, int key) {
    return Normals(static_cast<size_t>(c.key_width), 1000 + static_cast<uint64_t>(key));
  }
  static std::vector<float> Value(const AttentionCase& c, int key) {
    return Normals(static_cast<size_t>(c.value_width), 100000 + static_cast<uint64_t>(key));
  }

  void Store(const KernelTable& table, const AttentionCase& c, int key,
             const std::vector<float>& key_row, const std::vector<float>& value_row) {
    const int slot = key % kKvPageTokens;
    std::byte* page = bytes_.data() + key / kKvPageTokens * page_bytes_;
    table.store_key(key_row.data(), c.key_width, c.type, slot, page);
    table.store_value(value_row.data(), c.value_width, c.type, slot, page + key_bytes_);
  }

  KeyBlock Block(int32_t block) const {
    const std::byte* page = bytes_.data() + block * page_bytes_;
    return {.keys = page, .values = page + key_bytes_, .block = block};
  }
  int32_t count() const {
    return static_cast<int32_t>(bytes_.size() / static_cast<size_t>(page_bytes_));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  KvLayout layout_;
  int64_t key_bytes_;
  int64_t page_bytes_;
  std::vector<std::byte> bytes_;
};

struct Row {
  std::vector<float> query;
  int32_t begin;
  int32_t end;
  float sink;
  float score_factor;
};

std::vector<Row> Rows(const AttentionCase& c) {
  std::vector<Row> rows;
  for (int p = 0; p < c.positions; ++p) {
    const int32_t end = c.keys - c.positions + p + 1;
    const int32_t begin = c.window == 0 ? 0 : std::max(0, end - c.window);
    for (int h = 0; h < c.heads; ++h) {
      const auto seed = static_cast<uint64_t>(p * c.heads + h);
      rows.push_back({Normals(static_cast<size_t>(c.key_width), seed), begin, end,
                      static_cast<float>(h) - 1.5F,
                      1 + static_cast<float>(p) * c.score_factor_step});
    }
  }
  return rows;
}

float ScaleOf(const AttentionCase& c) { return 1 / std::sqrt(static_cast<float>(c.key_width)); }

// Runs the rows together, partial by partial. Blocks that no row sees are visited only if asked.
std::vector<float> Attend(const KernelTable& table, const AttentionCase& c, const Pages& pages,
                          const std::vector<Row>& rows, bool visit_all = false) {
  const auto width = static_cast<size_t>(c.value_width);
  std::vector<AttentionRow> inputs;
  int32_t begin = c.keys;
  int32_t end = 0;
  for (const Row& row : rows) {
    inputs.push_back({row.query.data(), row.begin, row.end, row.score_factor});
    begin = std::min(begin, row.begin);
    end = std::max(end, row.end);
  }
  std::vector<SoftmaxState> states(rows.size());
  std::vector<SoftmaxState> partial_states(rows.size());
  std::vector<float> sums(rows.size() * width, 0.0F);
  std::vector<float> partial_sums(rows.size() * width, NAN);
  constexpr int kPartialBlocks = kKvPartialKeys / kKvPageTokens;
  for (int32_t first = 0; first < pages.count(); first += kPartialBlocks) {
    std::vector<KeyBlock> blocks;
    for (int32_t b = first; b < std::min(first + kPartialBlocks, pages.count()); ++b) {
      const bool seen = b * kKvPageTokens < end && (b + 1) * kKvPageTokens > begin;
      if (seen || visit_all) blocks.push_back(pages.Block(b));
    }
    if (blocks.empty()) continue;
    table.attention_partial[static_cast<size_t>(c.type)]({
        .rows = inputs.data(),
        .row_count = static_cast<int>(rows.size()),
        .blocks = blocks.data(),
        .block_count = static_cast<int>(blocks.size()),
        .key_width = c.key_width,
        .value_width = c.value_width,
        .scale = ScaleOf(c),
        .soft_cap = c.soft_cap,
        .states = partial_states.data(),
        .sums = partial_sums.data(),
    });
    for (size_t r = 0; r < rows.size(); ++r) {
      table.merge_partial(partial_states[r], &partial_sums[r * width], c.value_width, &states[r],
                          &sums[r * width]);
    }
  }
  std::vector<float> sinks;
  for (const auto& row : rows) sinks.push_back(row.sink);
  table.finish_rows(states.data(), sums.data(), static_cast<int>(rows.size()), c.value_width,
                    c.sink ? sinks.data() : nullptr, sums.data());
  return sums;
}

std::vector<double> DenseReference(const AttentionCase& c, const Row& row) {
  std::vector<double> scores;
  double max = c.sink ? static_cast<double>(row.sink) : -1e300;
  for (int k = row.begin; k < row.end; ++k) {
    const auto key = AsStored(Pages::Key(c, k), c.type);
    double score = 0;
    for (size_t d = 0; d < key.size(); ++d) {
      score += static_cast<double>(row.query[d]) * static_cast<double>(key[d]);
    }
    score *= static_cast<double>(ScaleOf(c));
    const auto cap = static_cast<double>(c.soft_cap);
    if (cap != 0) score = cap * std::tanh(score / cap);
    score *= static_cast<double>(row.score_factor);
    scores.push_back(score);
    max = std::max(max, score);
  }
  double total = c.sink ? std::exp(static_cast<double>(row.sink) - max) : 0;
  std::vector<double> out(static_cast<size_t>(c.value_width), 0.0);
  for (int k = row.begin; k < row.end; ++k) {
    const double weight = std::exp(scores[static_cast<size_t>(k - row.begin)] - max);
    total += weight;
    const auto value = AsStored(Pages::Value(c, k), c.type);
    for (size_t d = 0; d < out.size(); ++d) {
      out[d] += weight * static_cast<double>(value[d]);
    }
  }
  for (double& value : out) value /= total;
  return out;
}

std::vector<uint32_t> Bits(const float* values, size_t count) {
  std::vector<uint32_t> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = std::bit_cast<uint32_t>(values[i]);
  return bits;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  return Bits(values.data(), values.size());
}

class Attention : public testing::TestWithParam<AttentionCase> {
 protected:
  const AttentionCase& case_ = GetParam();
  Pages pages_ = Pages(ScalarKernels(), case_);
  std::vector<Row> rows_ = Rows(case_);
};

TEST_P(Attention, StoresTheSamePagesInEveryTable) {
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_EQ(Pages(*table, case_).bytes(), pages_.bytes()) << table->name;
  }
}

TEST_P(Attention, HasTheSameBitsInEveryTable) {
  const auto expected = Bits(Attend(ScalarKernels(), case_, pages_, rows_));
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_EQ(Bits(Attend(*table, case_, pages_, rows_)), expected) << table->name;
  }
}

TEST_P(Attention, IsWithin5e6OfDoublePrecision) {
  const auto out = Attend(BestKernels(), case_, pages_, rows_);
  for (size_t r = 0; r < rows_.size(); ++r) {
    const auto expected = DenseReference(case_, rows_[r]);
    for (size_t d = 0; d < expected.size(); ++d) {
      ASSERT_NEAR(out[r * expected.size() + d], expected[d], 5e-6) << "row " << r << " value " << d;
    }
  }
}

TEST_P(Attention, OfARowIsTheSameAlone) {
  const auto width = static_cast<size_t>(case_.value_width);
  for (const KernelTable* table : RunnableTables()) {
    const auto together = Attend(*table, case_, pages_, rows_);
    for (size_t r = 0; r < rows_.size(); ++r) {
      EXPECT_EQ(Bits(Attend(*table, case_, pages_, {rows_[r]})), Bits(&together[r * width], width))
          << table->name << " row " << r;
    }
  }
}

TEST_P(Attention, DoesNotNoticeBlocksThatNobodySees) {
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_EQ(Bits(Attend(*table, case_, pages_, rows_, true)),
              Bits(Attend(*table, case_, pages_, rows_)))
        << table->name;
  }
}

// A later token's key and value that went to infinity must not reach earlier rows of the group.
TEST_P(Attention, OfEarlierRowsIgnoresLaterKeys) {
  const auto width = static_cast<size_t>(case_.value_width);
  const size_t earlier = rows_.size() - static_cast<size_t>(case_.heads);
  const std::vector<float> bad_key(static_cast<size_t>(case_.key_width), NAN);
  const std::vector<float> bad_value(width, INFINITY);
  Pages broken = pages_;
  broken.Store(ScalarKernels(), case_, case_.keys - 1, bad_key, bad_value);
  for (const KernelTable* table : RunnableTables()) {
    const auto clean = Attend(*table, case_, pages_, rows_);
    const auto out = Attend(*table, case_, broken, rows_);
    EXPECT_EQ(Bits(out.data(), earlier * width), Bits(clean.data(), earlier * width))
        << table->name;
    EXPECT_TRUE(std::isnan(out.back())) << table->name;
  }
}

// Panels here and there, at most a partial of them, and the pages that they would make.
TEST_P(Attention, OfPanelsHasTheBitsOfThePagesTheyWouldMake) {
  std::vector<KeyPanel> panels;
  AttentionCase packed = case_;
  packed.keys = 0;
  Pages copy = pages_;
  for (int panel = 0; (panel + 1) * kKvPanelKeys <= case_.keys; ++panel) {
    if (panel % 3 == 1 || packed.keys == kKvPartialKeys) continue;
    const KeyBlock page = pages_.Block(panel / kTilePanels);
    panels.push_back({page.keys, page.values, panel % kTilePanels * kKvPanelKeys});
    for (int i = 0; i < kKvPanelKeys; ++i) {
      const int key = panel * kKvPanelKeys + i;
      copy.Store(ScalarKernels(), case_, packed.keys++, Pages::Key(case_, key),
                 Pages::Value(case_, key));
    }
  }
  std::vector<AttentionRow> rows;
  for (const Row& row : rows_) {
    const auto r = static_cast<int>(rows.size());
    rows.push_back({row.query.data(), r % 7, std::max(0, packed.keys - 3 * (r % 5))});
  }
  std::vector<KeyBlock> blocks;
  for (int b = 0; b * kKvPageTokens < packed.keys; ++b) blocks.push_back(copy.Block(b));
  const auto width = static_cast<size_t>(case_.value_width);
  AttentionPartial work{};
  work.rows = rows.data();
  work.row_count = static_cast<int>(rows.size());
  work.key_width = case_.key_width;
  work.value_width = case_.value_width;
  work.scale = ScaleOf(case_);
  work.soft_cap = case_.soft_cap;
  const auto run = [&](const KernelTable& table, bool in_panels) {
    std::vector<SoftmaxState> states(rows.size());
    std::vector<float> sums(rows.size() * width, NAN);
    work.states = states.data();
    work.sums = sums.data();
    work.blocks = blocks.data();
    work.block_count = static_cast<int>(blocks.size());
    work.panels = in_panels ? panels.data() : nullptr;
    work.panel_count = static_cast<int>(panels.size());
    table.attention_partial[static_cast<size_t>(case_.type)](work);
    for (const SoftmaxState& state : states) sums.insert(sums.end(), {state.max, state.sum});
    return Bits(sums);
  };
  if (panels.empty()) return;  // a case of fewer keys than a panel has
  const auto expected = run(ScalarKernels(), false);
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_EQ(run(*table, false), expected) << table->name;
    EXPECT_EQ(run(*table, true), expected) << table->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

// Scores from flat to steep ones, by what they are multiplied with: references that move at almost
// every tile, and those beyond which float32 has no fractions, or no room.
class AttentionScores : public testing::TestWithParam<float> {};

TEST_P(AttentionScores, HaveTheSameBitsInEveryTableAndAlone) {
  const AttentionCase c = {"steep", DType::kF32, 64, 48, 3, 8, 700};
  const Pages pages(ScalarKernels(), c);
  std::vector<Row> rows = Rows(c);
  for (size_t r = 0; r < rows.size(); ++r) rows[r].score_factor = r % 4 == 3 ? 1 : GetParam();
  const auto width = static_cast<size_t>(c.value_width);
  const std::vector<float> expected = Attend(ScalarKernels(), c, pages, rows);
  for (const KernelTable* table : RunnableTables()) {
    EXPECT_EQ(Bits(Attend(*table, c, pages, rows)), Bits(expected)) << table->name;
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(Bits(Attend(*table, c, pages, {rows[r]})), Bits(&expected[r * width], width))
          << table->name << " row " << r;
    }
  }
}

TEST_P(AttentionScores, OfOneFarLargestGiveItsValue) {
  const AttentionCase c = {"steep", DType::kF32, 64, 48, 1, 1, 700};
  const std::vector<Row> rows = Rows(c);
  Pages pages(ScalarKernels(), c);
  std::vector<float> largest = rows[0].query;
  for (float& x : largest) x *= 100;  // a score of about 800 before the factor
  const std::vector<float> value = Pages::Value(c, 333);
  pages.Store(ScalarKernels(), c, 333, largest, value);
  std::vector<Row> scaled = rows;
  scaled[0].score_factor = GetParam();
  for (const KernelTable* table : RunnableTables()) {
    const std::vector<float> out = Attend(*table, c, pages, scaled);
    for (size_t d = 0; d < out.size(); ++d) {
      EXPECT_NEAR(out[d], value[d], 1e-6) << table->name << " value " << d;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Factors, AttentionScores, testing::Values(0.5F, 4.0F, 40.0F, 3e4F, 1e30F));

TEST(AttentionRowWithoutKeys, IsZeros) {
  for (const KernelTable* table : RunnableTables()) {
    const SoftmaxState nothing[2];
    std::vector<float> out(32, 0.0F);
    table->finish_rows(nothing, out.data(), 2, 16, nullptr, out.data());
    EXPECT_EQ(out, std::vector<float>(32, 0.0F));
  }
}

}  // namespace
}  // namespace remontoir
