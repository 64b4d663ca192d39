// Facts about captured attention: every row once, the same whatever the rounds, float32 pages only.
#include "eval/attention_capture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/loaded_engine.h"
#include "tensor/sealed_layout.h"
#include "tests/support/bits.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

LoadedModel Open(int32_t rows_max, ComputeMode compute, int32_t sparse_from = 0) {
  LoadEngineOptions options;
  options.sparse.engage_at = sparse_from;
  // The tiny model's heads are diffuse: with less all blocks are read.
  options.sparse.epsilon = 0.8F;
  options.backend = {.threads = 2, .compute = compute};
  options.engine.sequences_max = 1;
  options.engine.round_tokens_max = rows_max;
  options.context_max = 5632;
  auto opened = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  REM_CHECK(opened.ok(), opened.status().message());
  auto model = OpenModel(std::move(*opened), options, nullptr);
  REM_CHECK(model.ok(), model.status().message());
  return std::move(*model);
}

std::vector<int32_t> Tokens(const LoadedModel& model, size_t count = 100) {
  std::vector<int32_t> tokens(count);
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

TEST(CaptureAttention, LaterLayersSeeTheSparseModeFromItsFirstRowOn) {
  constexpr int32_t kTokens = kEngageAtCustomSparse + 64;
  LoadedModel exact = Open(512, ComputeMode::kF32);
  LoadedModel sparse = Open(100, ComputeMode::kF32, kEngageAtCustomSparse);
  const std::vector<int32_t> layers = {0, 1};
  const auto expected = CaptureAttention(*exact.runner, Tokens(exact, kTokens), layers);
  const auto captured = CaptureAttention(*sparse.runner, Tokens(sparse, kTokens), layers);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(captured.ok()) << captured.status().message();
  EXPECT_EQ((*captured)[0].queries, (*expected)[0].queries);
  EXPECT_EQ((*captured)[0].keys, (*expected)[0].keys);
  const std::vector<float>& keys = (*captured)[1].keys;
  const std::vector<float>& wanted = (*expected)[1].keys;
  ASSERT_EQ(keys.size(), wanted.size());
  const auto differ = std::mismatch(keys.begin(), keys.end(), wanted.begin()).first - keys.begin();
  const int32_t width = (*captured)[1].kv_heads * (*captured)[1].key_width;
  EXPECT_GE(differ / width, kEngageAtCustomSparse);
  EXPECT_LT(differ / width, kEngageAtCustomSparse + 8);
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
