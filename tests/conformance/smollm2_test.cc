// SmolLM2-135M-Instruct against its float32 references, in float32 and in the default mode.
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/real_reference.h"

namespace remontoir {
namespace {

class SmolLm2 : public testing::TestWithParam<RealTolerance> {
 protected:
  SmolLm2() : model_(OpenRealModel(DefaultModelPath(), GetParam().compute)) {}
  LoadedModel model_;
};

TEST_P(SmolLm2, AnswersAsTheReferenceTeacherForced) {
  ExpectReferenceAnswers(*model_.runner, "smollm2", 9, GetParam());
}

TEST_P(SmolLm2, HasTheReferencesPerplexityOnBothTexts) {
  for (const char* text : {"english", "code"}) {
    ExpectReferencePerplexity(*model_.runner, "smollm2", text, -1, GetParam());
  }
}

constexpr RealTolerance kFloat32 = {ComputeMode::kF32, 2e-3, 2e-3, 2e-3, 2e-3, 1e-3};
constexpr RealTolerance kEightBit = {ComputeMode::kAuto, 0.9, 0.09, 0.3, 0.25, 1e-2};

INSTANTIATE_TEST_SUITE_P(Modes, SmolLm2, testing::Values(kFloat32, kEightBit), ModeName);

// Keys and values in 8 bits too, which the reference doesn't have.
TEST(SmolLm2WithQ8Keys, AnswersAsTheReferenceTeacherForced) {
  // The default mode's bounds and a third more, for keys and values in 8 bits.
  const RealTolerance tolerance = {ComputeMode::kAuto, 1.2, 0.12, 0.4, 0.25, 1e-2};
  const LoadedModel model = OpenRealModel(DefaultModelPath(), ComputeMode::kAuto, DType::kQ8_0);
  ExpectReferenceAnswers(*model.runner, "smollm2", 9, tolerance);
}

TEST(SmolLm2WithQ8Keys, HasAPerplexityWithinAPercentOfF16) {
  const auto tokens = Ints(ReadJson(TestData("real/smollm2.english.ids.json")));
  double perplexity[2];
  for (const bool q8 : {false, true}) {
    const LoadedModel model =
        OpenRealModel(DefaultModelPath(), ComputeMode::kAuto, q8 ? DType::kQ8_0 : DType::kF16);
    perplexity[q8 ? 1 : 0] = Perplexity(NegativeLogLikelihoods(*model.runner, tokens));
  }
  EXPECT_NE(perplexity[1], perplexity[0]);
  EXPECT_NEAR(perplexity[1] / perplexity[0], 1, 0.01);
}

}  // namespace
}  // namespace remontoir
