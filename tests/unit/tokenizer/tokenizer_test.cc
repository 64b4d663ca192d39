// Facts about Tokenizer: SmolLM2's ids equal the references; the tiny vocabularies load.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

TEST(Tokenizer, GivesTheReferencesIds) {
  std::map<std::string, std::string> texts;
  for (const auto& row : ReadJsonLines("tok/texts.jsonl")) {
    texts[StringOf(row.at("id"))] = StringOf(row.at("text"));
  }
  const auto rows = ReadJsonLines("tok/smollm2.jsonl");
  EXPECT_EQ(rows.size(), 472u);
  for (const auto& row : rows) {
    const std::string id = StringOf(row.at("id"));
    const std::string& text = texts.at(id);
    EXPECT_EQ(IntsOf(SmolLm2().Encode(text, SpecialTokens::kAsText)), IntsOf(row.at("ids"))) << id;
    const auto& parsed =
        row.contains("ids_parse_special") ? row.at("ids_parse_special") : row.at("ids");
    EXPECT_EQ(IntsOf(SmolLm2().Encode(text, SpecialTokens::kParse)), IntsOf(parsed)) << id;
  }
}

TEST(Tokenizer, GivesTheReferencesBytesOfTokens) {
  for (const auto& row : ReadJsonLines("tok/smollm2.decode.jsonl")) {
    const std::vector<TokenId> tokens = TokensOf(row.at("ids"));
    std::string whole;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string bytes = FromHex(StringOf(row.at("pieces_hex").at(i)));
      EXPECT_EQ(SmolLm2().TokenBytes(tokens[i]), bytes) << Index(tokens[i]);
      whole += bytes;
    }
    EXPECT_EQ(SmolLm2().Decode(tokens, /*skip_special=*/false), ReplaceInvalidUtf8(whole));
  }
}

TEST(Tokenizer, ReplacesInvalidUtf8BeforeEncoding) {
  for (const auto& row : ReadJsonLines("tok/invalid_utf8.jsonl")) {
    const std::string bytes = FromHex(StringOf(row.at("hex")));
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), StringOf(row.at("replaced"))) << row.at("hex");
    EXPECT_EQ(IntsOf(SmolLm2().Encode(bytes, SpecialTokens::kAsText)),
              IntsOf(row.at("ids").at("smollm2")))
        << row.at("hex");
  }
}

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
    Result<ModelFile> file = ModelFile::Open(TestData(name));
    ASSERT_TRUE(file.ok()) << file.status().message();
    Result<Tokenizer> tokenizer = Tokenizer::FromModelFile(*file);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().message();
    const std::string text = "the tiny \u00E9 model\n";
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, SpecialTokens::kAsText), true), text);
  }
}

}  // namespace
}  // namespace remontoir
