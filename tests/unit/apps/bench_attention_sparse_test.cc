// `bench attention`: what its sparse rows say, held to a softmax in float64.
#include "apps/bench_attention_sparse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "apps/bench_attention_alarm.h"
#include "apps/bench_attention_decode.h"
#include "apps/bench_attention_heads.h"
#include "apps/bench_attention_long.h"
#include "apps/bench_attention_print.h"
#include "apps/bench_attention_rounds.h"
#include "eval/row_error.h"
#include "tensor/sealed_layout.h"
#include "tests/support/kernel_cases.h"

namespace remontoir {
namespace {

constexpr int32_t kWidth = 16;

std::vector<float> Near(uint64_t centre, uint64_t seed, float distance) {
  std::vector<float> row = Normals(kWidth, centre);
  const std::vector<float> noise = Normals(kWidth, seed);
  for (size_t d = 0; d < row.size(); ++d) row[d] += distance * noise[d];
  return row;
}

// Keys in clusters of whole blocks, and queries that are alike in a row group, so that most blocks
// are left to their moments.
CapturedAttention ClusteredLayer(int32_t tokens, int32_t heads, int32_t kv_heads) {
  CapturedAttention data;
  data.layer = 3;
  data.tokens = tokens;
  data.heads = heads;
  data.kv_heads = kv_heads;
  data.key_width = kWidth;
  data.value_width = kWidth;
  data.scale = 0.25F;
  for (int32_t token = 0; token < tokens; ++token) {
    const auto number = static_cast<uint64_t>(token);
    for (uint64_t head = 0; head < static_cast<uint64_t>(heads); ++head) {
      const auto query = Near(number / 8 + 100'000, number + 200'000 * (head + 1), 0.3F);
      data.queries.insert(data.queries.end(), query.begin(), query.end());
    }
    for (uint64_t head = 0; head < static_cast<uint64_t>(kv_heads); ++head) {
      const auto key = Near(number % 16, number + 1'000'000 * (head + 1), 0.2F);
      const auto value = Near(number % 16 + 50, number + 5'000'000 * (head + 1), 0.5F);
      data.keys.insert(data.keys.end(), key.begin(), key.end());
      data.values.insert(data.values.end(), value.begin(), value.end());
    }
  }
  return data;
}

// One row of a layer with one KV head.
std::vector<double> Softmax64(const CapturedAttention& data, int32_t position, int32_t head) {
  const float* query = data.queries.data() + (int64_t{position} * data.heads + head) * kWidth;
  std::vector<double> out(kWidth);
  double sum = 0;
  for (int32_t key = 0; key <= position; ++key) {
    double score = 0;
    for (int32_t d = 0; d < kWidth; ++d) {
      score += double{query[d]} * double{data.keys[static_cast<size_t>(key * kWidth + d)]};
    }
    const double weight = std::exp(score * double{data.scale});
    sum += weight;
    for (int32_t d = 0; d < kWidth; ++d) {
      out[static_cast<size_t>(d)] +=
          weight * double{data.values[static_cast<size_t>(key * kWidth + d)]};
    }
  }
  for (double& value : out) value /= sum;
  return out;
}

constexpr SparseAttentionOptions kSparse = {.engage_at = kEngageAtCustomSparse, .epsilon = 0.1F};

TEST(MeasurePrefill, ErrorIsThatOfASoftmaxInFloat64) {
  constexpr int32_t kPositions = 4288 + 4 * 64;
  const CapturedAttention data = ClusteredLayer(kPositions, 2, 1);
  constexpr SparseSetting kSettings[] = {{16, 0.1F}, {32, 0.2F}};
  const auto report = MeasurePrefill(data, kPositions, kSettings, 2, BestKernels());
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->size(), 2U);

  const CapturedAttention* layers[] = {&data};
  const auto pages = CapturedPages::Store(layers, kPositions, DType::kF32, BestKernels());
  ASSERT_TRUE(pages.ok());
  auto rounds = AttentionRounds::Make(*pages, kSparse, 64, BestKernels());
  ASSERT_TRUE(rounds.ok());
  double difference2 = 0;
  double exact2 = 0;
  for (int32_t first = kEngageAtCustomSparse; first < kPositions; first += 64) {
    (*rounds)->Run(0, first, 64);
    for (int32_t row = 0; row < 128; ++row) {
      const std::vector<double> exact = Softmax64(data, first + row / 2, row % 2);
      for (int32_t d = 0; d < kWidth; ++d) {
        const double want = exact[static_cast<size_t>(d)];
        const double got = double{(*rounds)->out()[static_cast<size_t>(row * kWidth + d)]};
        difference2 += (got - want) * (got - want);
        exact2 += want * want;
      }
    }
  }
  const double error = std::sqrt(difference2 / exact2);
  EXPECT_GT(error, 1e-4);
  EXPECT_NEAR((*report)[0].quality.rel_l2, error, 0.01 * error);
}

TEST(MeasurePrefill, RowsAreSane) {
  constexpr int32_t kPositions = 5 * 1024;
  const CapturedAttention data = ClusteredLayer(kPositions, 1, 1);
  constexpr SparseSetting kSettings[] = {{16, 0.1F}, {32, 0.2F}};
  const auto report = MeasurePrefill(data, kPositions, kSettings, 3, BestKernels());
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (size_t i = 0; i < 2; ++i) {
    const PrefillSpeed& row = (*report)[i];
    EXPECT_EQ(row.positions, kPositions);
    EXPECT_EQ(row.setting.block_keys, kSettings[i].block_keys);
    EXPECT_GT(row.exact_seconds, 0);
    EXPECT_GT(row.sparse_seconds, 0);
    EXPECT_GT(row.speed.median, 0);
    EXPECT_LE(row.speed.low, row.speed.median);
    EXPECT_GT(row.seal_part, 0);
    EXPECT_LT(row.seal_part, 1);
    EXPECT_GT(row.quality.rel_l2, 0);
    EXPECT_LT(row.quality.rel_l2, 0.1);
    EXPECT_GT(row.quality.far_density, 0);
    EXPECT_LE(row.quality.far_density, 1);
    // Rows from 4,288 on have four segments far of which they read this part.
    const double all = kPositions * (kPositions + 1.0) / 2;
    const double far = 4.0 * kSegmentKeys * (kPositions - kEngageAtCustomSparse);
    EXPECT_NEAR(row.quality.density, 1 - far * (1 - row.quality.far_density) / all, 1e-9);
  }
}

TEST(MeasurePrefill, IsExactBelowTheFirstSparsePosition) {
  const CapturedAttention data = ClusteredLayer(1024, 1, 1);
  constexpr SparseSetting kSettings[] = {{16, 0.1F}};
  const auto report = MeasurePrefill(data, 1000, kSettings, 1, BestKernels());
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ((*report)[0].quality.rel_l2, 0);
  EXPECT_EQ((*report)[0].quality.density, 1);
}

TEST(MeasurePrefill, RefusesLayersThatStayExact) {
  constexpr SparseSetting kSettings[] = {{16, 0.1F}};
  CapturedAttention windowed = ClusteredLayer(64, 1, 1);
  windowed.window = 32;
  CapturedAttention capped = ClusteredLayer(64, 1, 1);
  capped.soft_cap = 50;
  for (const CapturedAttention* data : {&windowed, &capped}) {
    EXPECT_EQ(MeasurePrefill(*data, 64, kSettings, 1, BestKernels()).status().code(),
              StatusCode::kUnsupported);
  }
}

TEST(AttentionRounds, ResidualsAreThoseOfTheRows) {
  constexpr int32_t kPositions = 4400;
  const CapturedAttention data = ClusteredLayer(kPositions, 1, 1);
  const CapturedAttention* layers[] = {&data};
  const auto pages = CapturedPages::Store(layers, kPositions, DType::kF16, BestKernels());
  ASSERT_TRUE(pages.ok());
  auto rounds = AttentionRounds::Make(*pages, kSparse, 8, BestKernels());
  ASSERT_TRUE(rounds.ok());
  (*rounds)->Run(0, kEngageAtCustomSparse, 8);
  float largest = 0;
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_GT((*rounds)->residuals()[r], 0);
    largest = std::max(largest, (*rounds)->residuals()[r]);
  }
  EXPECT_EQ(largest, (*rounds)->readings().residual_max);
  EXPECT_EQ((*rounds)->readings().far_blocks, 4 * kSegmentKeys / 16);
}

TEST(MeasureDecode, HasARowForEachLayer) {
  constexpr int32_t kPositions = 5000;
  const CapturedAttention first = ClusteredLayer(kPositions, 2, 1);
  CapturedAttention second = first;
  second.layer = 8;
  const CapturedAttention* layers[] = {&first, &second};
  auto caches = ColdCaches::Make(1 << 16);
  ASSERT_TRUE(caches.ok());
  for (const DType type : {DType::kF32, DType::kF16}) {
    const auto report =
        MeasureDecode(layers, kPositions, type, {16, 0.1F}, 3, *caches, BestKernels());
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_EQ(report->size(), 2U);
    EXPECT_EQ((*report)[0].layer, 3);
    EXPECT_EQ((*report)[1].layer, 8);
    for (const DecodeSpeed& row : *report) {
      EXPECT_EQ(row.type, type);
      EXPECT_EQ(row.heads, 2);
      EXPECT_GT(row.speed.low, 0);
      EXPECT_GT(row.exact_read_share, 0);
      EXPECT_GT(row.sparse_read_share, 0);
      EXPECT_GT(row.seal_seconds, 0);
      EXPECT_GT(row.far_density, 0);
      EXPECT_GT(row.rel_l2, 0);
      EXPECT_LT(row.rel_l2, 0.1);
    }
    // The same numbers twice.
    EXPECT_EQ((*report)[0].rel_l2, (*report)[1].rel_l2);
  }
  EXPECT_NE(caches->sum(), 0U);
}

TEST(MissedAlarms, CountsErrorsThatNobodySawComing) {
  struct Case {
    const char* what;
    std::vector<RowAlarm> rows;
    double missed;
  };
  const Case kCases[] = {
      {"none", {}, 0},
      {"a small error is none", {{0.019, 0}}, 0},
      {"an error within twice the residual is none", {{0.1, 0.05}}, 0},
      {"an error beyond twice the residual is one", {{0.1, 0.049}}, 1},
      {"no number of an exact row is one", {{0, 0}, {0, 0}}, 0},
      {"one in four", {{0.3, 0.1}, {0.3, 0.2}, {0.01, 0}, {0, 0}}, 0.25},
  };
  for (const Case& c : kCases) EXPECT_EQ(MissedAlarms(c.rows), c.missed) << c.what;
}

TEST(OfAllLayers, PutsRowsOfOneSettingTogether) {
  const std::vector<AlarmReport> reports = {
      {2, 100, {16, 0.1F}, false, {{0.1, 0}}}, {2, 100, {16, 0.1F}, true, {{0.2, 0}}},
      {2, 100, {32, 0.1F}, false, {{0.3, 0}}}, {5, 100, {16, 0.1F}, false, {{0, 0}, {0.5, 0}}},
      {5, 100, {16, 0.1F}, true, {{0, 0}}},    {5, 100, {32, 0.1F}, false, {{0, 0}}}};
  const std::vector<AlarmReport> all = OfAllLayers(reports);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].layer, -1);
  EXPECT_EQ(all[0].rows.size(), 3U);
  EXPECT_TRUE(all[1].decode);
  EXPECT_EQ(all[1].rows[1].error, 0);
  EXPECT_EQ(all[2].setting.block_keys, 32);
  EXPECT_DOUBLE_EQ(MissedAlarms(all[2].rows), 0.5);
}

TEST(MeasureAlarms, SamplesEveryHeadAndSetting) {
  const CapturedAttention data = ClusteredLayer(4600, 4, 2);
  constexpr SparseSetting kSettings[] = {{16, 0.1F}, {32, 0.2F}};
  const auto reports = MeasureAlarms(data, 4600, 3, kSettings, BestKernels());
  ASSERT_TRUE(reports.ok()) << reports.status().message();
  ASSERT_EQ(reports->size(), 3U);
  for (const AlarmReport& report : *reports) {
    EXPECT_EQ(report.layer, 3);
    EXPECT_EQ(report.rows.size(), report.decode ? 4 * 3U : 4 * 3 * 8U);
    double error = 0;
    double residual = 0;
    for (const RowAlarm& row : report.rows) {
      error += row.error;
      residual += row.residual;
    }
    EXPECT_GT(error, 0);
    EXPECT_GT(residual, 0);
  }
  EXPECT_TRUE(reports->back().decode);
}

TEST(GrowthExponent, IsThePowerBetweenTwoPoints) {
  EXPECT_DOUBLE_EQ(GrowthExponent(8192, 1, 32768, 16), 2);
  EXPECT_DOUBLE_EQ(GrowthExponent(8192, 3, 32768, 24), 1.5);
  EXPECT_DOUBLE_EQ(GrowthExponent(100, 7, 200, 7), 0);
}

TEST(RelativeError, IsOfTheExactRowAndZeroBetweenZeros) {
  const float exact[] = {3, 4};
  const float close[] = {3, 4.5F};
  const float zeros[] = {0, 0};
  EXPECT_DOUBLE_EQ(RelativeError(exact, close), 0.1);
  EXPECT_EQ(RelativeError(exact, exact), 0);
  EXPECT_EQ(RelativeError(zeros, zeros), 0);
}

PrefillSpeed Row(int32_t positions, SparseSetting setting, double exact, double sparse) {
  PrefillSpeed row;
  row.positions = positions;
  row.setting = setting;
  row.exact_seconds = exact;
  row.sparse_seconds = sparse;
  row.speed.median = exact / sparse;
  row.quality.rel_l2 = 0.0125;
  return row;
}

TEST(GrowthOf, TakesBlocksOf32AtTheLongerContextOnly) {
  HeadsPrefill prefill;
  prefill.rows = {Row(8192, {16, 0.2F}, 1, 1), Row(32768, {16, 0.2F}, 16, 8)};
  EXPECT_FALSE(GrowthOf(prefill).has_value());
  prefill.rows.push_back(Row(32768, {32, 0.2F}, 16, 4));
  const auto growth = GrowthOf(prefill);
  ASSERT_TRUE(growth.has_value());
  EXPECT_DOUBLE_EQ(growth->exact, 2);
  EXPECT_DOUBLE_EQ(growth->blocks_of_16, 1.5);
  EXPECT_DOUBLE_EQ(growth->blocks_16_to_32, 1);
}

std::string JsonOf(const SparseReport& report) {
  JsonWriter json;
  json.BeginObject();
  WriteSparse(json, report);
  json.EndObject();
  return json.Take();
}

TEST(WriteSparse, HasTheJudgedFiguresAndEveryRow) {
  SparseReport report;
  report.prefill.push_back({{.layer = 5, .first_head = 4},
                            {Row(8192, {16, 0.1F}, 1, 1), Row(16384, {16, 0.1F}, 4, 1.6)}});
  report.decode.emplace_back();
  report.alarms.emplace_back();
  const std::string json = JsonOf(report);
  for (const char* part :
       {"\"prefill_16k_x\":2.5,", "\"rel_l2_16k\":0.0125,", "\"sparse\":{\"prefill\":[{",
        "\"positions\":8192,", "\"exponents\":[]", "\"decode\":[{", "\"alarms\":[{"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
}

TEST(WriteSparse, SaysNothingOfLayersThatStayExact) {
  EXPECT_EQ(JsonOf({}).find("{\"prefill_16k_x\":null,\"rel_l2_16k\":null,"), 0U);
}

TEST(PickHeads, TakesQueriesWithTheirKeysAndValues) {
  const CapturedAttention layer = ClusteredLayer(3, 4, 2);
  const CapturedAttention picked = PickHeads(layer, 2, 2, 2);
  EXPECT_EQ(picked.tokens, 2);
  EXPECT_EQ(picked.heads, 2);
  EXPECT_EQ(picked.kv_heads, 1);
  ASSERT_EQ(picked.queries.size(), 2U * 2 * kWidth);
  ASSERT_EQ(picked.keys.size(), 2U * kWidth);
  // Token 1: query heads 2 and 3 of 4, KV head 1 of 2.
  EXPECT_EQ(picked.queries[2 * kWidth], layer.queries[(4 + 2) * kWidth]);
  EXPECT_EQ(picked.keys[kWidth], layer.keys[(2 + 1) * kWidth]);
  EXPECT_EQ(picked.values[kWidth + 1], layer.values[(2 + 1) * kWidth + 1]);
}

TEST(JoinTwoHeads, AddsTheirScores) {
  const CapturedAttention layer = ClusteredLayer(3, 4, 2);
  const CapturedAttention joined = JoinTwoHeads(layer, 1, 2, 3);
  EXPECT_EQ(joined.key_width, 2 * kWidth);
  EXPECT_EQ(joined.heads, 1);
  EXPECT_FLOAT_EQ(joined.scale, layer.scale / std::sqrt(2.0F));
  const size_t row = 2U * 2 * kWidth;  // of token 2
  EXPECT_EQ(joined.queries[row], layer.queries[(2 * 4 + 1) * kWidth]);
  EXPECT_EQ(joined.queries[row + kWidth], layer.queries[(2 * 4 + 2) * kWidth]);
  EXPECT_EQ(joined.keys[row], layer.keys[(2 * 2 + 0) * kWidth]);
  EXPECT_EQ(joined.keys[row + kWidth], layer.keys[(2 * 2 + 1) * kWidth]);
  EXPECT_EQ(joined.values.size(), 3U * 2 * kWidth);
}

}  // namespace
}  // namespace remontoir
