// Facts about Vocabulary: what it reads, and which key each inconsistency names.
#include "tokenizer/vocabulary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/paths.h"

namespace remontoir {
namespace {

VocabularyData Small() {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"<s>", "a", "b", "ab", "<|im_end|>", "<|eot_id|>"};
  data.kinds = {3, 1, 1, 1, 3, 1};
  data.merges = {"a b"};
  data.bos = 0;
  return data;
}

TEST(Vocabulary, NamesTheInconsistentKey) {
  const struct {
    const char* what;
    std::function<void(VocabularyData&)> spoil;
    const char* key;
  } cases[] = {
      {"no tokens", [](auto& d) { d.tokens.clear(); }, "tokenizer.ggml.tokens"},
      {"few kinds", [](auto& d) { d.kinds.pop_back(); }, "tokenizer.ggml.token_type"},
      {"strange kind", [](auto& d) { d.kinds[1] = 7; }, "tokenizer.ggml.token_type"},
      {"negative kind", [](auto& d) { d.kinds[1] = -1; }, "tokenizer.ggml.token_type"},
      {"few scores", [](auto& d) { d.scores = {1.0f}; }, "tokenizer.ggml.scores"},
      {"no number", [](auto& d) { d.scores.assign(6, NAN); }, "tokenizer.ggml.scores"},
      {"bos too large", [](auto& d) { d.bos = 6; }, "tokenizer.ggml.bos_token_id"},
      {"eos huge", [](auto& d) { d.eos = ~uint64_t{0}; }, "tokenizer.ggml.eos_token_id"},
      {"eot too large", [](auto& d) { d.eot = 77; }, "tokenizer.ggml.eot_token_id"},
      {"unknown too large", [](auto& d) { d.unknown = 6; }, "tokenizer.ggml.unknown_token_id"},
      {"padding too large", [](auto& d) { d.padding = 6; }, "tokenizer.ggml.padding_token_id"},
      {"no blank", [](auto& d) { d.merges = {"ab"}; }, "tokenizer.ggml.merges"},
      {"empty merge", [](auto& d) { d.merges = {""}; }, "tokenizer.ggml.merges"},
      {"one side", [](auto& d) { d.merges = {"a "}; }, "tokenizer.ggml.merges"},
      {"left unknown", [](auto& d) { d.merges = {"x b"}; }, "tokenizer.ggml.merges"},
      {"right unknown", [](auto& d) { d.merges = {"a x"}; }, "tokenizer.ggml.merges"},
      {"merged unknown", [](auto& d) { d.merges = {"b a"}; }, "tokenizer.ggml.merges"},
  };
  for (const auto& c : cases) {
    VocabularyData data = Small();
    c.spoil(data);
    const Result<Vocabulary> vocabulary = Vocabulary::Create(std::move(data));
    ASSERT_FALSE(vocabulary.ok()) << c.what;
    EXPECT_EQ(vocabulary.status().code(), StatusCode::kInvalidArgument) << c.what;
    EXPECT_EQ(vocabulary.status().message().find(c.key), 0u) << vocabulary.status().message();
  }
}

TEST(Vocabulary, ReadsWhatItIsGiven) {
  const Result<Vocabulary> vocabulary = Vocabulary::Create(Small());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->Find("ab"), TokenId{3});
  EXPECT_EQ(vocabulary->Find("abc"), std::nullopt);
  EXPECT_EQ(vocabulary->Kind(TokenId{4}), TokenKind::kControl);
  EXPECT_EQ(vocabulary->bos(), TokenId{0});
  EXPECT_EQ(vocabulary->eos(), std::nullopt);
  ASSERT_EQ(vocabulary->merges().size(), 1u);
  EXPECT_EQ(vocabulary->merges()[0].merged, TokenId{3});
}

TEST(Vocabulary, EndsGenerationAtControlTokensSpelledLikeTurnEnds) {
  VocabularyData data = Small();
  data.eos = 1;
  const Result<Vocabulary> vocabulary = Vocabulary::Create(std::move(data));
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_TRUE(vocabulary->IsEndOfGeneration(TokenId{1}));   // the file's eos
  EXPECT_TRUE(vocabulary->IsEndOfGeneration(TokenId{4}));   // <|im_end|>
  EXPECT_FALSE(vocabulary->IsEndOfGeneration(TokenId{5}));  // <|eot_id|>, but a normal token
}

TEST(Vocabulary, EndsGenerationWhereGrok2EndsATurn) {
  VocabularyData data = Small();
  data.tokens[4] = "<|separator|>";
  const Result<Vocabulary> vocabulary = Vocabulary::Create(std::move(data));
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_TRUE(vocabulary->IsEndOfGeneration(TokenId{4}));
}

TEST(Vocabulary, AddsBosWhereModelsOfTheKindExpectIt) {
  const struct {
    const char* model;
    const char* pre;
    std::optional<bool> said;
    bool expected;
  } cases[] = {
      {"gpt2", "gpt-2", std::nullopt, false},    {"gpt2", "gpt-2", true, true},
      {"gpt2", "llama-bpe", std::nullopt, true}, {"gpt2", "llama-bpe", false, false},
      {"llama", "default", std::nullopt, true},
  };
  for (const auto& c : cases) {
    VocabularyData data = Small();
    data.model = c.model;
    data.pre = c.pre;
    data.add_bos = c.said;
    EXPECT_EQ(Vocabulary::Create(std::move(data))->add_bos(), c.expected) << c.pre;
  }
}

TEST(Vocabulary, RefusesTheBrokenFilesByKey) {
  const struct {
    const char* file;
    const char* key;
  } cases[] = {
      {"token-type-short", "token_type"},
      {"bos-out-of-range", "bos_token_id"},
      {"no-tokens", "tokens"},
      {"tokens-of-int", "tokens"},
      {"merge-unknown", "merges"},
  };
  for (const auto& c : cases) {
    Result<ModelFile> file = ModelFile::Open(TestData("bad/" + std::string(c.file) + ".gguf"));
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Result<Vocabulary> vocabulary = Vocabulary::FromModelFile(*file);
    ASSERT_FALSE(vocabulary.ok()) << c.file;
    EXPECT_NE(vocabulary.status().message().find("tokenizer.ggml." + std::string(c.key)),
              std::string::npos)
        << vocabulary.status().message();
  }
}

}  // namespace
}  // namespace remontoir
