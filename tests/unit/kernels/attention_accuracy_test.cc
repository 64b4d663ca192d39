// Attention against softmax in double precision, within a bound that is derived from its roundings:
// large scores, one key that outweighs all, values that cancel, magnitudes of every size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tensor/kv_layout.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/kernel_tables.h"

namespace remontoir {
namespace {

constexpr double kUnit = 0x1p-24;  // rounding to float32 changes a value by at most this part

enum class Keys : uint8_t { kRandom, kEqual, kOneOutweighs };
enum class Values : uint8_t { kRandom, kAlternating };

struct AccuracyCase {
  const char* name;
  int width;  // of keys and values
  int keys;
  float query_factor = 1;  // makes scores large or tiny
  float value_factor = 1;
  Keys key_kind = Keys::kRandom;
  Values value_kind = Values::kRandom;
  float soft_cap = 0;
  bool sink = false;
};

constexpr AccuracyCase kCases[] = {
    {"plain", 64, 300},
    {"one_key", 80, 1},
    {"large_scores", 64, 300, 40},
    {"huge_scores", 64, 1100, 300},
    {"tiny_scores", 64, 300, 1e-6F},
    {"equal_keys", 33, 1500, 1, 1, Keys::kEqual},
    {"equal_keys_and_values_that_cancel", 64, 2048, 1, 1, Keys::kEqual, Values::kAlternating},
    {"values_that_cancel", 128, 1030, 1, 100, Keys::kRandom, Values::kAlternating},
    {"one_key_outweighs", 64, 1200, 10, 1, Keys::kOneOutweighs},
    {"large_values", 45, 200, 1, 1e4F},
    {"small_values", 45, 200, 1, 1e-3F},
    {"cap", 64, 300, 20, 1, Keys::kRandom, Values::kRandom, 5},
    {"cap_far_away", 64, 300, 1, 1, Keys::kRandom, Values::kRandom, 1000},
    {"sink", 64, 300, 4, 1, Keys::kRandom, Values::kRandom, 0, true},
    {"wide", 256, 1100, 3},
};

// A query, the keys and values as they are stored, and what attention makes of them.
class Problem {
 public:
  Problem(const AccuracyCase& c, DType type) : case_(c), type_(type) {
    const auto width = static_cast<size_t>(c.width);
    query_ = Normals(width, 1);
    for (float& x : query_) x *= c.query_factor;
    for (int k = 0; k < c.keys; ++k) {
      const auto seed = static_cast<uint64_t>(k);
      keys_.push_back(Normals(width, c.key_kind == Keys::kEqual ? 10 : 10 + seed));
      values_.push_back(
          Normals(width, 5000 + (c.value_kind == Values::kAlternating ? seed / 2 : seed)));
      const bool negative = c.value_kind == Values::kAlternating && k % 2 == 1;
      for (float& x : values_.back()) x *= negative ? -c.value_factor : c.value_factor;
    }
    if (c.key_kind == Keys::kOneOutweighs) keys_[keys_.size() / 2] = query_;
    for (auto* rows : {&keys_, &values_}) {
      for (auto& row : *rows) row = AsStored(row, type);
    }
  }

  std::vector<float> Run(const KernelTable& table) const {
    const auto width = static_cast<size_t>(case_.width);
    const KvLayout layout(
        {{.kv_heads = 1, .key_width = case_.width, .value_width = case_.width, .type = type_}});
    const int pages = (case_.keys + kKvPageTokens - 1) / kKvPageTokens;
    std::vector<std::byte> bytes(static_cast<size_t>(pages * layout.page_bytes()), std::byte{0xff});
    std::vector<KeyBlock> blocks;
    for (int32_t p = 0; p < pages; ++p) {
      std::byte* page = bytes.data() + p * layout.page_bytes();
      blocks.push_back({page, page + layout.value_offset(0, 0), p});
      for (int k = p * kKvPageTokens; k < std::min((p + 1) * kKvPageTokens, case_.keys); ++k) {
        const auto at = static_cast<size_t>(k);
        const int slot = k % kKvPageTokens;
        table.store_key(keys_[at].data(), case_.width, type_, slot, page);
        table.store_value(values_[at].data(), case_.width, type_, slot,
                          page + layout.value_offset(0, 0));
      }
    }
    const AttentionRow row = {query_.data(), 0, case_.keys};
    SoftmaxState state;
    std::vector<float> sum(width, 0.0F);
    constexpr size_t kPartialBlocks = kKvPartialKeys / kKvPageTokens;
    for (size_t first = 0; first < blocks.size(); first += kPartialBlocks) {
      SoftmaxState partial_state;
      std::vector<float> partial_sum(width);
      table.attention_partial[static_cast<size_t>(type_)]({
          .rows = &row,
          .row_count = 1,
          .blocks = blocks.data() + first,
          .block_count = static_cast<int>(std::min(kPartialBlocks, blocks.size() - first)),
          .key_width = case_.width,
          .value_width = case_.width,
          .scale = scale(),
          .soft_cap = case_.soft_cap,
          .states = &partial_state,
          .sums = partial_sum.data(),
      });
      table.merge_partial(partial_state, partial_sum.data(), case_.width, &state, sum.data());
    }
    table.finish_rows(&state, sum.data(), 1, case_.width, case_.sink ? &kSink : nullptr,
                      sum.data());
    return sum;
  }

  // Rounding errors, in units of kUnit and to first order. A score: a chain of `width`
  // multiply-adds, and in q8_0 one more at most to join blocks to, errs by (width + 1) * sum |q k|
  // * scale at most; the factor, the cap's tanh (4) and the way to log2 units by 8 |score|
  // together. A weight errs as its score does, by 2 |score| for taking off the maximum, by 3 for
  // exp2, and by 4 + |score| for each block and partial whose maximum it was moved to. An output
  // divides two sums of such weights, of at most keys + 2 * blocks + 10 roundings, the one of a
  // weight times its value's scale included.
  void Expect(const std::vector<float>& out) const {
    double total = 0;
    double max = case_.sink ? double{kSink} : -INFINITY;
    double largest = case_.sink ? std::fabs(double{kSink}) : 0;
    double chain = 0;
    std::vector<double> scores;
    for (const auto& key : keys_) {
      double score = 0;
      double magnitude = 0;
      for (size_t d = 0; d < key.size(); ++d) {
        const double term = double{query_[d]} * double{key[d]} * double{scale()};
        score += term;
        magnitude += std::fabs(term);
      }
      largest = std::max(largest, std::fabs(score));
      chain = std::max(chain, magnitude * (case_.width + 1));
      if (case_.soft_cap != 0) {
        score = double{case_.soft_cap} * std::tanh(score / double{case_.soft_cap});
      }
      max = std::max(max, score);
      scores.push_back(score);
    }
    const double blocks = 2 + case_.keys / kKvPageTokens + case_.keys / kKvPartialKeys;
    largest *= std::numbers::log2e;
    const double weight_error = chain + 10 * largest + 3 + blocks * (4 + largest);
    const double error = kUnit * (2 * weight_error + case_.keys + 2 * blocks + 10);
    if (case_.sink) total += std::exp(double{kSink} - max);
    for (double& score : scores) total += score = std::exp(score - max);
    for (size_t d = 0; d < out.size(); ++d) {
      double sum = 0;
      double magnitude = 0;
      for (size_t k = 0; k < scores.size(); ++k) {
        const double term = scores[k] / total * double{values_[k][d]};
        sum += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(double{out[d]}, sum, error * magnitude) << "value " << d;
    }
    // A bound that nothing could miss would say nothing.
    EXPECT_LT(error, 0.05);
  }

 private:
  static constexpr float kSink = 1.25F;

  float scale() const { return 1 / std::sqrt(static_cast<float>(case_.width)); }

  const AccuracyCase& case_;
  const DType type_;
  std::vector<float> query_;
  std::vector<std::vector<float>> keys_;
  std::vector<std::vector<float>> values_;
};

class AttentionAccuracy : public testing::TestWithParam<AccuracyCase> {};

TEST_P(AttentionAccuracy, IsWithinItsBoundOfDoublePrecision) {
  for (const DType type : KvTypes()) {
    const Problem problem(GetParam(), type);
    for (const KernelTable* table : RunnableTables()) {
      SCOPED_TRACE(std::string(Info(type).name) + ", " + std::string(table->name));
      problem.Expect(problem.Run(*table));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionAccuracy, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace remontoir
