// Gemma-3-270M against its float32 references: a quarter of a million logits a row take minutes.
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/real_reference.h"

namespace remontoir {
namespace {

constexpr int32_t kBos = 2;

class Gemma3 : public testing::TestWithParam<RealTolerance> {
 protected:
  Gemma3()
      : model_(OpenRealModel(StoredModelPath("gemma-3-270m-q4_k_m.gguf"), GetParam().compute)) {}
  LoadedModel model_;
};

TEST_P(Gemma3, AnswersAsTheReferenceTeacherForced) {
  ExpectReferenceAnswers(*model_.runner, "gemma3", 5, GetParam());
}

TEST_P(Gemma3, HasTheReferencesPerplexityOnEnglish) {
  ExpectReferencePerplexity(*model_.runner, "gemma3", "english", kBos, GetParam());
}

constexpr RealTolerance kFloat32 = {ComputeMode::kF32, 2e-3, 2e-3, 2e-3, 2e-3, 1e-3};
constexpr RealTolerance kEightBit = {ComputeMode::kAuto, 1.2, 0.15, 1.2, 0.9, 1e-2};

INSTANTIATE_TEST_SUITE_P(Modes, Gemma3, testing::Values(kFloat32, kEightBit), ModeName);

}  // namespace
}  // namespace remontoir
