// Facts about what a round must compute and read.
#include "apps/bench_work.h"

#include <gtest/gtest.h>

#include <vector>

#include "apps/bench_engine.h"

namespace remontoir {
namespace {

// Two layers, the second with a window of 4.
ModelWork SmallModel() {
  ModelWork model;
  model.layers = {.int8_ops_per_row = 100, .f32_ops_per_row = 10, .bytes = 1000};
  model.output = {.int8_ops_per_row = 50, .f32_ops_per_row = 0, .bytes = 300};
  model.attention_ops_per_key = 2;
  model.kv_bytes_per_key = 8;
  model.window_by_layer = {0, 4};
  return model;
}

TEST(BenchWork, StepReadsAllWeightsAndTheKeysThatItSees) {
  const SequenceRows step = {.first_position = 9, .rows = 1, .logit_rows = 1};
  const BenchWork work = WorkOfRound(SmallModel(), {&step, 1});
  EXPECT_EQ(work.int8_ops, 150);
  EXPECT_EQ(work.f32_ops, 10);
  EXPECT_EQ(work.weight_bytes, 1300);
  EXPECT_EQ(work.attention_ops, 2 * (10 + 4));
  EXPECT_EQ(work.kv_bytes, 8 * (10 + 4));
}

TEST(BenchWork, PromptRowsSeeTheKeysBeforeThemAndShareTheRead) {
  const SequenceRows prompt = {.first_position = 2, .rows = 3, .logit_rows = 0};
  const BenchWork work = WorkOfRound(SmallModel(), {&prompt, 1});
  EXPECT_EQ(work.int8_ops, 300);
  EXPECT_EQ(work.weight_bytes, 1000);  // no logits, no output matrix
  EXPECT_EQ(work.attention_ops, 2 * ((3 + 4 + 5) + (3 + 4 + 4)));
  EXPECT_EQ(work.kv_bytes, 8 * (5 + 5));
}

TEST(BenchWork, BatchReadsWeightsOnceAndEachSequencesKeys) {
  const std::vector<SequenceRows> batch(3, {.first_position = 9, .rows = 1, .logit_rows = 1});
  const BenchWork work = WorkOfRound(SmallModel(), batch);
  EXPECT_EQ(work.weight_bytes, 1300);
  EXPECT_EQ(work.int8_ops, 3 * 150);
  EXPECT_EQ(work.kv_bytes, 3 * 8 * (10 + 4));
}

TEST(BenchWork, FewRowsReadTheExpertsThatTheyUse) {
  ModelWork model = SmallModel();
  model.experts.bytes = 800;
  model.expert_share_per_row = 0.25;
  const SequenceRows one = {.first_position = 0, .rows = 1, .logit_rows = 0};
  const SequenceRows many = {.first_position = 0, .rows = 20, .logit_rows = 0};
  EXPECT_EQ(WorkOfRound(model, {&one, 1}).weight_bytes, 1200);
  EXPECT_EQ(WorkOfRound(model, {&many, 1}).weight_bytes, 1800);
  // What the round is known to have read counts.
  EXPECT_EQ(WorkOfRound(model, {&many, 1}, 0.5).weight_bytes, 1400);
}

TEST(BenchWork, CeilingTakesTheSlowerOfReadingAndMultiplying) {
  Ceilings ceilings;
  ceilings.read_bytes_per_second = 100;
  ceilings.int8_ops_per_second = 1000;
  ceilings.f32_ops_per_second = 10;
  BenchWork work;
  work.weight_bytes = 200;  // 2 s
  work.int8_ops = 500;      // 0.5 s
  work.kv_bytes = 100;      // 1 s
  work.attention_ops = 30;  // 3 s
  EXPECT_DOUBLE_EQ(CeilingSeconds(work, ceilings), 5);
}

TEST(BenchWork, BestCeilingsAreTheHigherFigures) {
  Ceilings quiet, busy;
  quiet = {"avx2", 2, 100, 300, 900, 50};
  busy = {"avx2", 2, 110, 200, 800, 60};
  const Ceilings best = BestOf(quiet, busy);
  EXPECT_EQ(best.threads, 2);
  EXPECT_EQ(best.read_bytes_per_second, 110);
  EXPECT_EQ(best.cached_bytes_per_second, 300);
  EXPECT_EQ(best.int8_ops_per_second, 900);
  EXPECT_EQ(best.f32_ops_per_second, 60);
}

TEST(BenchEngine, RowsAreNamedAfterWhatTheyMeasure) {
  BenchEngineOptions options;
  options.prompts = {512};
  options.depths = {0, 2048};
  options.batches = {8};
  std::vector<std::string> names;
  for (const BenchRow& row : RowsOf(options)) names.push_back(row.Name());
  EXPECT_EQ(names, (std::vector<std::string>{"prompt_512", "decode_0", "decode_2048", "batch_8"}));
}

}  // namespace
}  // namespace remontoir
