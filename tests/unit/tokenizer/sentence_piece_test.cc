// Facts about SentencePiece vocabularies, on small ones made here.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/unit/tokenizer/oracle.h"
#include "tokenizer/sentence_piece_bpe.h"
#include "tokenizer/unigram.h"

namespace remontoir {
namespace {

struct Piece {
  const char* spelling;
  float score;
  TokenKind kind = TokenKind::kNormal;
};

VocabularyData DataOf(const char* model, const std::vector<Piece>& pieces) {
  VocabularyData data;
  data.model = model;
  data.pre = "default";
  data.add_space_prefix = false;
  for (const Piece& piece : pieces) {
    data.tokens.emplace_back(piece.spelling);
    data.scores.push_back(piece.score);
    data.kinds.push_back(static_cast<int64_t>(piece.kind));
    if (piece.kind == TokenKind::kUnknown) data.unknown = data.tokens.size() - 1;
  }
  return data;
}

void AddBytes(VocabularyData& data) {
  for (int byte = 0; byte < 256; ++byte) {
    char spelling[8];
    std::snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
    data.tokens.emplace_back(spelling);
    data.scores.push_back(0);
    data.kinds.push_back(static_cast<int64_t>(TokenKind::kByte));
  }
}

Tokenizer Made(VocabularyData data) {
  Result<Vocabulary> vocabulary = Vocabulary::Create(std::move(data));
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  Result<Tokenizer> tokenizer = Tokenizer::Create(std::move(vocabulary).value());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

// The tokens' spellings with blanks between.
std::string Spelled(const Tokenizer& tokenizer, std::string_view text,
                    SpecialTokens mode = SpecialTokens::kAsText) {
  std::string spelled;
  for (TokenId token : tokenizer.Encode(text, mode)) {
    spelled += (spelled.empty() ? "" : " ") + tokenizer.TokenSpelling(token);
  }
  return spelled;
}

const std::vector<Piece> kPieces = {{"<unk>", 0, TokenKind::kUnknown},
                                    {"<s>", 0, TokenKind::kControl},
                                    {"a", -1},
                                    {"b", -1},
                                    {"c", -1},
                                    {"ab", -5},
                                    {"bc", -3},
                                    {"abc", -9},
                                    {"\u2581", -1},
                                    {"\u2581a", -2},
                                    {"  ", 0, TokenKind::kUserDefined},
                                    {"bb", -1, TokenKind::kUnused}};

TEST(SentencePieceBpe, MergesTheBestScoreFirst) {
  const Tokenizer tokenizer = Made(DataOf("llama", kPieces));
  EXPECT_EQ(Spelled(tokenizer, "abc"), "abc");  // bc first, then abc
  EXPECT_EQ(Spelled(tokenizer, "abab"), "ab ab");
  EXPECT_EQ(Spelled(tokenizer, "a a"), "a \u2581a");
}

TEST(SentencePieceBpe, TakesUnusedPiecesApart) {
  EXPECT_EQ(Spelled(Made(DataOf("llama", kPieces)), "bb"), "b b");
}

TEST(SentencePieceBpe, UserDefinedPiecesNeverMerge) {
  // Two blanks are a piece of their own, although a blank and an a would merge.
  EXPECT_EQ(Spelled(Made(DataOf("llama", kPieces)), "a  a"), "a    a");
}

TEST(SentencePieceBpe, UnknownCharactersAreOneTokenOrBytes) {
  EXPECT_EQ(Spelled(Made(DataOf("llama", kPieces)), "xyaz"), "<unk> a <unk>");
  VocabularyData data = DataOf("llama", kPieces);
  AddBytes(data);
  const Tokenizer tokenizer = Made(std::move(data));
  EXPECT_EQ(Spelled(tokenizer, "x\u00E9"), "<0x78> <0xC3> <0xA9>");
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode("x\u00E9", SpecialTokens::kAsText), true), "x\u00E9");
}

TEST(SentencePieceBpe, AddsOneBlankToTheWholeTextIfTheFileSaysSo) {
  VocabularyData data = DataOf("llama", kPieces);
  data.add_space_prefix = true;
  const Tokenizer tokenizer = Made(std::move(data));
  EXPECT_EQ(Spelled(tokenizer, "a"), "\u2581a");
  EXPECT_EQ(Spelled(tokenizer, ""), "");
  EXPECT_EQ(Spelled(tokenizer, "<s>a", SpecialTokens::kParse), "<s> \u2581a");
}

TEST(SentencePieceBpe, ParsesSpecialTokensOnlyWhenAsked) {
  const Tokenizer tokenizer = Made(DataOf("llama", kPieces));
  EXPECT_EQ(Spelled(tokenizer, "a<s>b", SpecialTokens::kParse), "a <s> b");
  EXPECT_EQ(Spelled(tokenizer, "a<s>b"), "a <unk> b");
  EXPECT_EQ(Spelled(tokenizer, "x<unk>x", SpecialTokens::kParse), "<unk> <unk> <unk>");
}

TEST(SentencePiece, RefusesVocabulariesWithoutScoresOrWithOddBytes) {
  for (const char* model : {"llama", "t5"}) {
    VocabularyData no_scores = DataOf(model, kPieces);
    no_scores.scores.clear();
    VocabularyData odd_byte = DataOf(model, {{"<0xZZ>", 0, TokenKind::kByte}});
    const struct {
      VocabularyData data;
      const char* key;
    } cases[] = {{no_scores, "tokenizer.ggml.scores"}, {odd_byte, "tokenizer.ggml.tokens"}};
    for (const auto& c : cases) {
      Result<Vocabulary> vocabulary = Vocabulary::Create(c.data);
      ASSERT_TRUE(vocabulary.ok());
      const Result<Tokenizer> tokenizer = Tokenizer::Create(std::move(vocabulary).value());
      ASSERT_FALSE(tokenizer.ok());
      EXPECT_EQ(tokenizer.status().message().find(c.key), 0u) << tokenizer.status().message();
    }
  }
}

TEST(Unigram, TakesTheLikeliestPath) {
  const Tokenizer tokenizer = Made(DataOf("t5", {{"<unk>", 0, TokenKind::kUnknown},
                                                 {"a", -3},
                                                 {"b", -3},
                                                 {"ab", -4},
                                                 {"aba", -9},
                                                 {"bab", -4.5f}}));
  EXPECT_EQ(Spelled(tokenizer, "ab"), "ab");       // -4 beats -6
  EXPECT_EQ(Spelled(tokenizer, "aba"), "ab a");    // -7 beats -9
  EXPECT_EQ(Spelled(tokenizer, "abab"), "a bab");  // -7.5 beats -8
  EXPECT_EQ(Spelled(tokenizer, "a??b"), "a <unk> b");
}

}  // namespace
}  // namespace remontoir
