// Facts about reading a model's shape and tensors from its file.
#include "model/model_info.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/paths.h"

namespace remontoir {
namespace {

Result<ModelInfo> Read(const std::string& file) {
  auto opened = ModelFile::Open(TestData(file));
  REM_CHECK(opened.ok(), opened.status().message());
  auto info = ReadModelInfo(*opened);
  if (info.ok()) info->tensors = {};  // they point into the file, which closes here
  return info;
}

TEST(ReadModelInfo, TellsADenseModelsShape) {
  const auto info = Read("tiny/tiny-llama31.f32.gguf");
  ASSERT_TRUE(info.ok()) << info.status().message();
  const ModelShape& shape = info->shape;
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.width, 96);
  EXPECT_EQ(shape.heads, 3);
  EXPECT_EQ(shape.kv_heads, 1);
  EXPECT_EQ(shape.key_width, 32);
  EXPECT_EQ(shape.feed_forward_width, 128);
  EXPECT_EQ(shape.experts, 0);
  EXPECT_EQ(shape.vocabulary_size, 288);
  EXPECT_EQ(shape.context_trained, 512);
  EXPECT_FALSE(shape.tied_embedding);
}

TEST(ReadModelInfo, TellsAnExpertModelsShape) {
  const auto info = Read("tiny/tiny-mixtral.q8_0.gguf");
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->shape.experts, 8);
  EXPECT_EQ(info->shape.experts_used, 2);
}

struct BadCase {
  const char* file;
  const char* named;
};

TEST(ReadModelInfo, NamesTheKeyOrTensorThatIsWrong) {
  const BadCase cases[] = {
      {"no-architecture", "general.architecture"},
      {"no-block-count", "llama.block_count"},
      {"block-count-huge", "llama.block_count"},
      {"block-count-string", "llama.block_count"},
      {"head-count-0", "llama.attention.head_count"},
      {"head-count-5", "llama.attention.head_count"},
      {"head-count-kv-4", "llama.attention.head_count_kv"},
      {"eps-negative", "layer_norm_rms_epsilon"},
      {"rope-base-nan", "llama.rope.freq_base"},
      {"context-length-0", "llama.context_length"},
      {"tensor-missing", "blk.0.attn_q.weight"},
      {"vocab-mismatch", "token_embd"},
      {"experts-used-9-of-4", "llama.expert_used_count"},
  };
  for (const BadCase& bad : cases) {
    const auto info = Read("bad/" + std::string(bad.file) + ".gguf");
    ASSERT_FALSE(info.ok()) << bad.file;
    EXPECT_NE(info.status().message().find(bad.named), std::string::npos)
        << bad.file << ": " << info.status().message();
  }
}

}  // namespace
}  // namespace remontoir
