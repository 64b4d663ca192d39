// Facts about Tokenizer with SmolLM2's vocabulary and the tiny ones.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

TEST(Tokenizer, EmptyTextHasNoTokens) {
  EXPECT_TRUE(SmolLm2().Encode("", SpecialTokens::kAsText).empty());
  EXPECT_EQ(SmolLm2().Decode({}, false), "");
}

TEST(Tokenizer, ParsesSpecialTokensOnlyInWhatTheTemplateWrote) {
  const std::vector<TemplateSpan> spans = {
      {"<|im_start|>user\n", true}, {"a <|im_end|> b", false}, {"<|im_end|>", true}};
  const std::vector<TokenId> tokens = SmolLm2().EncodeChat(spans, false);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), TokenId{1}), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), TokenId{2}), 1);
  EXPECT_EQ(SmolLm2().Decode(tokens, false), "<|im_start|>user\na <|im_end|> b<|im_end|>");
  const std::vector<TokenId> trusting = SmolLm2().EncodeChat(spans, true);
  EXPECT_EQ(std::count(trusting.begin(), trusting.end(), TokenId{2}), 2);
}

TEST(Tokenizer, ASpecialTokenAcrossABorderOfContentIsText) {
  const std::vector<TemplateSpan> spans = {{"<|im_", true}, {"end|>", false}};
  for (TokenId token : SmolLm2().EncodeChat(spans, false)) EXPECT_FALSE(SmolLm2().IsControl(token));
  const std::vector<TemplateSpan> written = {{"<|im_", true}, {"end|>", true}};
  EXPECT_EQ(SmolLm2().EncodeChat(written, false), std::vector<TokenId>{TokenId{2}});
}

TEST(Tokenizer, TokenizesPlainTextJointlyAcrossSpans) {
  const std::vector<TemplateSpan> spans = {{"Hel", true}, {"lo wor", false}, {"ld", true}};
  EXPECT_EQ(SmolLm2().EncodeChat(spans, false),
            SmolLm2().Encode("Hello world", SpecialTokens::kAsText));
}

TEST(Tokenizer, EncodesAnyBytes) {
  std::mt19937 random(20250102);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() >> 7);
    const std::vector<TokenId> tokens = SmolLm2().Encode(bytes, SpecialTokens::kAsText);
    for (TokenId token : tokens) {
      ASSERT_TRUE(SmolLm2().Contains(token));
      ASSERT_FALSE(SmolLm2().IsControl(token));
    }
    EXPECT_TRUE(IsValidUtf8(SmolLm2().Decode(tokens, true)));
  }
}

TEST(Tokenizer, RoundTripsTextWhoseBytesTheVocabularyHas) {
  for (std::string_view text : {"Hello, world!", " na\u00EFve \U0001F600\n\n\tx", "\u4F60\u597D"}) {
    EXPECT_EQ(SmolLm2().Decode(SmolLm2().Encode(text, SpecialTokens::kAsText), false), text);
  }
}

TEST(Tokenizer, KnowsTheEndsOfGeneration) {
  EXPECT_EQ(SmolLm2().eos(), TokenId{2});
  EXPECT_TRUE(SmolLm2().IsEndOfGeneration(TokenId{2}));   // <|im_end|>
  EXPECT_TRUE(SmolLm2().IsEndOfGeneration(TokenId{0}));   // <|endoftext|>
  EXPECT_FALSE(SmolLm2().IsEndOfGeneration(TokenId{1}));  // <|im_start|>
}

TEST(Tokenizer, LoadsTheTinyVocabularies) {
  for (const char* name : {"tiny/tiny-llama.f32.gguf", "tiny/tiny-mixtral.f32.gguf",
                           "tiny/tiny-llama-split-00001-of-00003.gguf"}) {
    Result<Tokenizer> tokenizer = LoadTokenizer(TestData(name));
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().message();
    const std::string text = "the tiny \u00E9 model\n";
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, SpecialTokens::kAsText), true), text);
  }
}

}  // namespace
}  // namespace remontoir
