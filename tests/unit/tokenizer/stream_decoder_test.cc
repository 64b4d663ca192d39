// Facts about StreamDecoder: whole characters only, and together the whole decoding.
#include "tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

// Decodes token by token and checks every part on the way.
std::string Stream(const std::vector<TokenId>& tokens, bool skip_special) {
  StreamDecoder decoder(SmolLm2(), skip_special);
  std::string whole;
  for (TokenId token : tokens) {
    const std::string part = decoder.Push(token);
    EXPECT_TRUE(IsValidUtf8(part));
    whole += part;
  }
  const std::string rest = decoder.Finish();
  EXPECT_TRUE(IsValidUtf8(rest));
  EXPECT_EQ(decoder.Finish(), "");
  return whole + rest;
}

TEST(StreamDecoder, EqualsTheWholeDecodingOfTheOracles) {
  for (const auto& row : ReadOracleLines("tok/smollm2.decode.jsonl")) {
    const std::vector<TokenId> tokens = TokensOf(row.at("ids"));
    EXPECT_EQ(Stream(tokens, false), SmolLm2().Decode(tokens, false)) << row.at("ids");
  }
}

TEST(StreamDecoder, EqualsTheWholeDecodingOfRandomTokens) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> tokens(random() % 30);
    // Few distinct ids: mostly single bytes and control tokens, which make broken characters.
    for (TokenId& token : tokens) token = TokenId{static_cast<int32_t>(random() % 300)};
    for (bool skip_special : {false, true}) {
      EXPECT_EQ(Stream(tokens, skip_special), SmolLm2().Decode(tokens, skip_special));
    }
  }
}

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  const std::vector<TokenId> tokens =
      SmolLm2().Encode("\U0002A6D6", SpecialTokens::kAsText);  // a rare character: several tokens
  ASSERT_GT(tokens.size(), 1u);
  StreamDecoder decoder(SmolLm2(), true);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) EXPECT_EQ(decoder.Push(tokens[i]), "");
  EXPECT_EQ(decoder.Push(tokens.back()), "\U0002A6D6");
}

TEST(StreamDecoder, FinishesAnUnfinishedCharacterWithAReplacement) {
  const std::vector<TokenId> tokens = SmolLm2().Encode("\U0002A6D6", SpecialTokens::kAsText);
  StreamDecoder decoder(SmolLm2(), true);
  EXPECT_EQ(decoder.Push(tokens[0]), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
}

TEST(StreamDecoder, SkipsControlTokensOrWritesTheirSpelling) {
  const std::vector<TokenId> tokens = SmolLm2().Encode("<|im_end|>x", SpecialTokens::kParse);
  EXPECT_EQ(Stream(tokens, true), "x");
  EXPECT_EQ(Stream(tokens, false), "<|im_end|>x");
}

}  // namespace
}  // namespace remontoir
