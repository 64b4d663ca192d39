// Facts about captured attention: every row once, the same whatever the rounds, float32 pages only.
#include "eval/attention_capture.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/loaded_engine.h"
#include "tests/support/bits.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

LoadedModel Open(int32_t rows_max, ComputeMode compute) {
  LoadEngineOptions options;
  options.backend = {.threads = 2, .compute = compute};
  options.engine.sequences_max = 1;
  options.engine.round_tokens_max = rows_max;
  auto opened = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  REM_CHECK(opened.ok(), opened.status().message());
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

std::vector<int32_t> Tokens(const LoadedModel& model) {
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 3);
  const int32_t vocabulary = model.runner->shape().vocabulary_size;
  for (int32_t& token : tokens) token %= vocabulary;
  return tokens;
}

TEST(CaptureAttention, HasEveryRowOnceWhateverTheRounds) {
  LoadedModel whole = Open(512, ComputeMode::kF32);
  LoadedModel pieces = Open(7, ComputeMode::kF32);
  const std::vector<int32_t> layers = {1, 0};
  const auto expected = CaptureAttention(*whole.runner, Tokens(whole), layers);
  const auto captured = CaptureAttention(*pieces.runner, Tokens(pieces), layers);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(captured.ok()) << captured.status().message();
  const ModelShape& shape = whole.runner->shape();
  for (size_t i = 0; i < layers.size(); ++i) {
    const CapturedAttention& one = (*captured)[i];
    EXPECT_EQ(one.layer, layers[i]);
    EXPECT_EQ(one.tokens, 100);
    EXPECT_EQ(one.queries.size(), static_cast<size_t>(100 * shape.heads * shape.key_width));
    EXPECT_EQ(one.keys.size(), static_cast<size_t>(100 * shape.kv_heads * shape.key_width));
    EXPECT_EQ(one.values.size(), static_cast<size_t>(100 * shape.kv_heads * shape.value_width));
    EXPECT_EQ(BitsOf(one.queries), BitsOf((*expected)[i].queries));
    EXPECT_EQ(BitsOf(one.keys), BitsOf((*expected)[i].keys));
    EXPECT_EQ(BitsOf(one.values), BitsOf((*expected)[i].values));
  }
}

TEST(CaptureAttention, RefusesWhatItCannotShow) {
  LoadedModel model = Open(512, ComputeMode::kAuto);
  const std::vector<int32_t> layers = {0};
  EXPECT_EQ(CaptureAttention(*model.runner, Tokens(model), layers).status().code(),
            StatusCode::kUnsupported);
  const std::vector<int32_t> missing = {99};
  EXPECT_EQ(CaptureAttention(*model.runner, Tokens(model), missing).status().code(),
            StatusCode::kInvalidArgument);
  const std::vector<int32_t> many(static_cast<size_t>(model.runner->limits().context_max) + 1);
  EXPECT_EQ(CaptureAttention(*model.runner, many, layers).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace remontoir
