// Facts about what is counted of experts, and about experts that stay in the file.
#include "backend/expert_load.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/bits.h"
#include "tests/unit/backend/rounds.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {
namespace {

std::vector<int32_t> Layers(int32_t count) {
  std::vector<int32_t> layers(static_cast<size_t>(count));
  std::iota(layers.begin(), layers.end(), 3);
  return layers;
}

// By "layer/expert".
std::map<std::string, int64_t> Samples(const ExpertLoad& load) {
  std::map<std::string, int64_t> samples;
  for (const MetricFamily& family : load.families()) {
    for (const MetricSample& sample : family.samples) {
      samples[sample.labels[0].value + "/" + sample.labels[1].value] =
          std::get<const Counter*>(sample.metric)->value();
    }
  }
  return samples;
}

TEST(ExpertLoad, HasACounterForEachLayerAndExpert) {
  ExpertLoad load(Layers(2), 3);
  load.CountRows(load.PlaceOf(4), 2, 7);
  const std::map<std::string, int64_t> wanted = {{"3/0", 0}, {"3/1", 0}, {"3/2", 0},
                                                 {"4/0", 0}, {"4/1", 0}, {"4/2", 7}};
  EXPECT_EQ(Samples(load), wanted);
}

TEST(ExpertLoad, SumsLayersWhereTheyWouldBeTooMany) {
  constexpr int32_t kExperts = 128;
  EXPECT_EQ(Samples(ExpertLoad(Layers(8), kExperts)).size(), 8 * kExperts);
  ExpertLoad load(Layers(9), kExperts);
  load.CountRows(load.PlaceOf(3), 5, 2);
  load.CountRows(load.PlaceOf(11), 5, 3);
  EXPECT_EQ(Samples(load).size(), size_t{kExperts});
  EXPECT_EQ(Samples(load).at("all/5"), 5);
}

TEST(ExpertLoad, CountsNothingByExpertWhereThoseAloneAreTooMany) {
  ExpertLoad load(Layers(2), 1 + static_cast<int32_t>(MetricSet::kSamplesMax));
  load.CountRows(load.PlaceOf(4), 0, 1);
  EXPECT_TRUE(load.families().empty());
}

TinyShape Experts(DType type) {
  TinyShape shape;
  shape.type = type;
  shape.experts = 5;
  return shape;
}

// A round of rows, then single steps.
std::vector<std::vector<uint32_t>> LogitBits(const TinyModel& model, CpuBackendOptions options) {
  Rounds rounds(model, options);
  std::vector<int32_t> tokens(90);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 50);
  const size_t sequence = rounds.Add(tokens);
  rounds.Run({{sequence, 80}});
  while (rounds.Left(sequence) > 0) rounds.Run({{sequence, 1}});
  std::vector<std::vector<uint32_t>> bits;
  for (const std::vector<float>& row : rounds.Logits(sequence)) bits.push_back(BitsOf(row));
  return bits;
}

TEST(ExpertLoad, IsWhatARoundSentToExperts) {
  const TinyModel model(Experts(DType::kQ8_0));
  Rounds rounds(model, {.threads = 2});
  const ExpertLoad* load = rounds.backend().expert_load();
  ASSERT_NE(load, nullptr);
  const size_t sequence = rounds.Add(std::vector<int32_t>(20, 3));
  rounds.Run({{sequence, 20}});
  int64_t rows = 0;
  for (const auto& [place, count] : Samples(*load)) rows += count;
  EXPECT_EQ(rows, 2 * 20 * 2);  // layers, tokens, experts used
  // Gate, up and down: no row was padding.
  EXPECT_EQ(load->rows_wanted.value(), 3 * rows);
  EXPECT_EQ(load->rows_multiplied.value(), 3 * rows);
  EXPECT_GE(load->experts_read.value(), 2 * 2);
  EXPECT_LE(load->experts_read.value(), 2 * 5);
}

TEST(ExpertLoad, IsNoneOfADenseModel) {
  const TinyModel model(TinyShape{});
  Rounds rounds(model, {.threads = 1});
  EXPECT_EQ(rounds.backend().expert_load(), nullptr);
}

TEST(MappedExperts, GiveTheBitsOfResidentOnes) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
    const TinyModel model(Experts(type));
    for (const ComputeMode compute : {ComputeMode::kAuto, ComputeMode::kF32}) {
      const auto resident = LogitBits(model, {.threads = 2, .compute = compute});
      EXPECT_EQ(LogitBits(model, {.threads = 2, .compute = compute, .experts_mapped = true}),
                resident)
          << Info(type).name;
    }
  }
}

TEST(MappedExperts, TakeNoMemoryButAPanelAWorker) {
  const TinyModel model(Experts(DType::kQ8_0));
  Rounds resident(model, {.threads = 2});
  Rounds mapped(model, {.threads = 2, .experts_mapped = true});
  // 2 layers, 3 matrices of 5 experts, 64 x 96 weights of 34 bytes for 32 of them.
  EXPECT_EQ(resident.backend().weights_bytes() - mapped.backend().weights_bytes(),
            int64_t{2} * 3 * 5 * 64 * 96 / 32 * 34);
  // The widest panel: 16 rows of 96.
  EXPECT_EQ(mapped.backend().activation_bytes() - resident.backend().activation_bytes(),
            int64_t{2} * ((16 * 96 / 32 * 34 + 63) / 64 * 64));
}

}  // namespace
}  // namespace remontoir::testing
