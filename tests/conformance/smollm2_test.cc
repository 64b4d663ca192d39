// SmolLM2-135M-Instruct against float32 references: greedy answers, logprobs, perplexity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/loaded_engine.h"
#include "eval/teacher_forcing.h"
#include "sampling/logprobs.h"
#include "tests/support/json_file.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

LoadedModel OpenDefaultModel(ComputeMode compute) {
  LoadEngineOptions options;
  options.backend = {.threads = 0, .compute = compute};
  options.engine.sequences_max = 2;
  options.context_max = 4096;
  auto opened = ModelFile::Open(DefaultModelPath());
  REM_CHECK(opened.ok(), opened.status().message() + " (scripts/fetch_model brings it)");
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

// What the oracles' README allows.
struct Tolerance {
  ComputeMode compute;
  double logprob_max;       // of any of the reference's five best
  double logprob_mean;      // over all of them
  double best_max;          // of the reference's best
  double margin;            // the same token unless the reference's margin is below
  double perplexity_ratio;  // relative
};

constexpr Tolerance kFloat32 = {ComputeMode::kF32, 2e-3, 2e-3, 2e-3, 2e-3, 1e-3};
constexpr Tolerance kEightBit = {ComputeMode::kAuto, 0.9, 0.09, 0.3, 0.25, 1e-2};

class SmolLm2 : public testing::TestWithParam<Tolerance> {
 protected:
  SmolLm2() : model_(OpenDefaultModel(GetParam().compute)) {}
  LoadedModel model_;
};

TEST_P(SmolLm2, AnswersAsTheReferenceTeacherForced) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& line : ReadJsonLines(TestData("real/smollm2.greedy.jsonl"))) {
    const std::string name(line.at("name").as_string());
    auto tokens = Ints(line.at("prompt_ids"));
    const auto first = static_cast<int32_t>(tokens.size()) - 1;
    const auto greedy = Ints(line.at("greedy_ids"));
    tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
    RunTeacherForced(
        *model_.runner, tokens, 512, first, [&](int32_t position, std::span<const float> logits) {
          const int32_t step = position - first;
          const double log_sum = LogSumExp(logits);
          for (int rank = 0; rank < 5; ++rank) {
            const auto& top = line.at("top5").at(step).at(rank);
            const double logprob = logits[top.at(0).to_number<int32_t>()] - log_sum;
            const double error = std::abs(logprob - top.at(1).to_number<double>());
            EXPECT_LE(error, rank == 0 ? GetParam().best_max : GetParam().logprob_max)
                << name << ", step " << step << ", rank " << rank;
            sum += error;
            ++count;
          }
          const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
          if (line.at("margin").at(step).to_number<double>() >= GetParam().margin) {
            EXPECT_EQ(best, greedy[step]) << name << ", step " << step;
          }
        });
  }
  EXPECT_EQ(count, 9 * 64 * 5);
  EXPECT_LE(sum / static_cast<double>(count), GetParam().logprob_mean);
}

TEST_P(SmolLm2, HasTheReferencesPerplexityOnBothTexts) {
  const auto references = ReadJson(TestData("real/smollm2.ppl.json"));
  for (const std::string text : {"english", "code"}) {
    const auto tokens = Ints(ReadJson(TestData("real/smollm2." + text + ".ids.json")));
    const double wanted = references.at(text).at("ppl").to_number<double>();
    const double perplexity = Perplexity(NegativeLogLikelihoods(*model_.runner, tokens));
    EXPECT_NEAR(perplexity / wanted, 1, GetParam().perplexity_ratio) << text;
  }
}

std::string ModeName(const testing::TestParamInfo<Tolerance>& mode) {
  return mode.param.compute == ComputeMode::kF32 ? "Float32" : "Default";
}

INSTANTIATE_TEST_SUITE_P(Modes, SmolLm2, testing::Values(kFloat32, kEightBit), ModeName);

}  // namespace
}  // namespace remontoir
