// SmolLM2 with every feed-forward block eight times as equal experts: it says what the dense model
// says, whatever its routers choose. Wants scripts/make_upcycled.
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/real_reference.h"

namespace remontoir {
namespace {

LoadedModel Open(const std::string& path, bool mapped) {
  LoadEngineOptions options;
  options.backend = {.threads = 0, .compute = ComputeMode::kF32, .experts_mapped = mapped};
  options.engine.sequences_max = 2;
  options.context_max = 4160;
  auto file = ModelFile::Open(path);
  REM_CHECK(file.ok(), file.status().message() + " (scripts/make_upcycled makes it)");
  auto model = OpenModel(std::move(*file), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

std::string UpcycledPath() { return StoredModelPath("SmolLM2-135M-Instruct.Q4_1.upcycled.gguf"); }

// The likeliest token after each of a prompt's and of the reference's answer.
std::vector<int64_t> Likeliest(ModelRunner& runner, const boost::json::value& line) {
  auto tokens = Ints(line.at("prompt_ids"));
  const auto greedy = Ints(line.at("greedy_ids"));
  tokens.insert(tokens.end(), greedy.begin(), greedy.end());
  std::vector<int64_t> best;
  RunTeacherForced(runner, tokens, 512, 0, [&](int32_t, std::span<const float> logits) {
    best.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
  });
  return best;
}

class Upcycled : public testing::TestWithParam<bool> {};

TEST_P(Upcycled, SaysWhatTheDenseModelSays) {
  const LoadedModel dense = Open(DefaultModelPath(), false);
  const LoadedModel experts = Open(UpcycledPath(), GetParam());
  for (const auto& line : ReadJsonLines(TestData("real/smollm2.greedy.jsonl"))) {
    EXPECT_EQ(Likeliest(*experts.runner, line), Likeliest(*dense.runner, line)) << line.at("name");
  }
}

TEST_P(Upcycled, AnswersAsTheDenseModelsReference) {
  const LoadedModel experts = Open(UpcycledPath(), GetParam());
  ExpectReferenceAnswers(*experts.runner, "smollm2", 9,
                         {ComputeMode::kF32, 2e-3, 2e-3, 2e-3, 2e-3, 1e-3});
}

INSTANTIATE_TEST_SUITE_P(Experts, Upcycled, testing::Bool(),
                         [](const auto& mapped) { return mapped.param ? "Mapped" : "Resident"; });

}  // namespace
}  // namespace remontoir
