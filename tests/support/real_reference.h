// Holds a real model to the oracles' float32 references: greedy answers, logprobs, perplexity.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/loaded_engine.h"
#include "eval/teacher_forcing.h"
#include "sampling/logprobs.h"
#include "tests/support/json_file.h"
#include "tests/support/paths.h"

namespace remontoir {

// What the oracles' README allows.
struct RealTolerance {
  ComputeMode compute;
  double logprob_max;       // of any of the reference's five best
  double logprob_mean;      // over all of them
  double best_max;          // of the reference's best
  double margin;            // the same token unless the reference's margin is below
  double perplexity_ratio;  // relative
};

inline LoadedModel OpenRealModel(const std::string& path, ComputeMode compute,
                                 DType kv_type = DType::kF16) {
  LoadEngineOptions options;
  options.backend = {.threads = 0, .compute = compute};
  options.kv_type = kv_type;
  options.engine.sequences_max = 2;
  options.context_max = 4160;  // 4,096 tokens, and one before them
  auto opened = ModelFile::Open(path);
  REM_CHECK(opened.ok(), opened.status().message() + " (scripts/fetch_model brings it)");
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

// Errors of the reference's logprobs, teacher-forced.
class LogprobErrors {
 public:
  explicit LogprobErrors(const RealTolerance& tolerance) : tolerance_(tolerance) {}

  // One prompt: a line of "<model>.greedy.jsonl".
  void AddPrompt(ModelRunner& runner, const boost::json::value& line) {
    auto tokens = Ints(line.at("prompt_ids"));
    const auto first = static_cast<int32_t>(tokens.size()) - 1;
    const auto greedy = Ints(line.at("greedy_ids"));
    tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
    RunTeacherForced(runner, tokens, 512, first,
                     [&](int32_t position, std::span<const float> logits) {
                       AddStep(line, position - first, greedy[position - first], logits);
                     });
  }

  int64_t count() const { return count_; }
  double mean() const { return sum_ / static_cast<double>(count_); }

 private:
  void AddStep(const boost::json::value& line, int32_t step, int32_t wanted,
               std::span<const float> logits) {
    const double log_sum = LogSumExp(logits);
    for (int rank = 0; rank < 5; ++rank) {
      const auto& top = line.at("top5").at(step).at(rank);
      const double logprob = logits[top.at(0).to_number<int32_t>()] - log_sum;
      const double error = std::abs(logprob - top.at(1).to_number<double>());
      EXPECT_LE(error, rank == 0 ? tolerance_.best_max : tolerance_.logprob_max)
          << line.at("name") << ", step " << step << ", rank " << rank;
      sum_ += error;
      ++count_;
    }
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (line.at("margin").at(step).to_number<double>() >= tolerance_.margin) {
      EXPECT_EQ(best, wanted) << line.at("name") << ", step " << step;
    }
  }

  const RealTolerance tolerance_;
  double sum_ = 0;
  int64_t count_ = 0;
};

inline void ExpectReferenceAnswers(ModelRunner& runner, const std::string& model, int prompts,
                                   const RealTolerance& tolerance) {
  LogprobErrors errors(tolerance);
  for (const auto& line : ReadJsonLines(TestData("real/" + model + ".greedy.jsonl"))) {
    errors.AddPrompt(runner, line);
  }
  EXPECT_EQ(errors.count(), int64_t{prompts} * 64 * 5);
  EXPECT_LE(errors.mean(), tolerance.logprob_mean);
}

// first_token: prepended to the text's ids (a model's BOS), or -1.
inline void ExpectReferencePerplexity(ModelRunner& runner, const std::string& model,
                                      const std::string& text, int32_t first_token,
                                      const RealTolerance& tolerance) {
  auto tokens = Ints(ReadJson(TestData("real/" + model + "." + text + ".ids.json")));
  if (first_token >= 0) tokens.insert(tokens.begin(), first_token);
  const auto references = ReadJson(TestData("real/" + model + ".ppl.json"));
  const double wanted = references.at(text).at("ppl").to_number<double>();
  const double perplexity = Perplexity(NegativeLogLikelihoods(runner, tokens));
  EXPECT_NEAR(perplexity / wanted, 1, tolerance.perplexity_ratio) << text;
}

inline std::string ModeName(const testing::TestParamInfo<RealTolerance>& mode) {
  return mode.param.compute == ComputeMode::kF32 ? "Float32" : "Default";
}

}  // namespace remontoir
