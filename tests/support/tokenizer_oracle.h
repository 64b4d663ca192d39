// Facts about a tokenizer that we have references for: every id, byte and replacement is equal. The
// unit tests and the long ones say for which vocabularies.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {

struct TokenizerOracleCase {
  const char* name;  // of the references: tok/NAME.jsonl
  std::string path;  // of a file with the vocabulary
};

class TokenizerOracle : public testing::TestWithParam<TokenizerOracleCase> {
 protected:
  void SetUp() override {
    Result<Tokenizer> loaded = LoadTokenizer(GetParam().path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_.emplace(std::move(loaded).value());
  }

  std::string File(const std::string& ending) const {
    return std::string("tok/") + GetParam().name + ending;
  }
  std::vector<int> Encode(std::string_view text, SpecialTokens mode) const {
    return IntsOf(tokenizer_->Encode(text, mode));
  }

  std::optional<Tokenizer> tokenizer_;
};

TEST_P(TokenizerOracle, GivesTheReferencesIds) {
  std::map<std::string, std::string> texts;
  for (const auto& row : ReadOracleLines("tok/texts.jsonl")) {
    texts[StringOf(row.at("id"))] = StringOf(row.at("text"));
  }
  const auto rows = ReadOracleLines(File(".jsonl"));
  EXPECT_EQ(rows.size(), 472u);
  for (const auto& row : rows) {
    const std::string id = StringOf(row.at("id"));
    const std::string& text = texts.at(id);
    EXPECT_EQ(Encode(text, SpecialTokens::kAsText), IntsOf(row.at("ids"))) << id;
    const bool differs = row.contains("ids_parse_special");
    EXPECT_EQ(Encode(text, SpecialTokens::kParse),
              IntsOf(row.at(differs ? "ids_parse_special" : "ids")))
        << id;
  }
}

TEST_P(TokenizerOracle, GivesTheReferencesBytesOfTokens) {
  for (const auto& row : ReadOracleLines(File(".decode.jsonl"))) {
    const std::vector<TokenId> tokens = TokensOf(row.at("ids"));
    std::string whole;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string bytes = FromHex(StringOf(row.at("pieces_hex").at(i)));
      EXPECT_EQ(tokenizer_->TokenBytes(tokens[i]), bytes) << Index(tokens[i]);
      whole += bytes;
    }
    EXPECT_EQ(tokenizer_->Decode(tokens, /*skip_special=*/false), ReplaceInvalidUtf8(whole));
  }
}

TEST_P(TokenizerOracle, ReplacesInvalidUtf8BeforeEncoding) {
  for (const auto& row : ReadOracleLines("tok/invalid_utf8.jsonl")) {
    const std::string bytes = FromHex(StringOf(row.at("hex")));
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), StringOf(row.at("replaced"))) << row.at("hex");
    EXPECT_EQ(Encode(bytes, SpecialTokens::kAsText), IntsOf(row.at("ids").at(GetParam().name)))
        << row.at("hex");
  }
}

inline std::string OracleName(const testing::TestParamInfo<TokenizerOracleCase>& named) {
  std::string name = named.param.name;
  std::erase(name, '-');
  return name;
}

inline void PrintTo(const TokenizerOracleCase& oracle, std::ostream* out) { *out << oracle.name; }

}  // namespace remontoir
