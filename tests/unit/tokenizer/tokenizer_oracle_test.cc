// Facts about all tokenizers that we have references for: every id, byte and replacement is equal.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

std::string ModelHome() { return std::filesystem::path(DefaultModelPath()).parent_path().string(); }

// A vocabulary that may not be given away is tested where its file is in the model home.
struct Oracle {
  const char* name;
  const char* test_data;   // nullptr: not part of the repository
  const char* model_home;  // file name there
};

constexpr Oracle kOracles[] = {
    {"smollm2", nullptr, "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"gpt2", "tok/gpt2.vocab.gguf", nullptr},
    {"qwen2", "tok/qwen2.vocab.gguf", nullptr},
    {"grok1", "tok/grok1.vocab.gguf", nullptr},
    {"llama3", nullptr, "ggml-vocab-llama-bpe.gguf"},
    {"llama2-spm", nullptr, "ggml-vocab-llama-spm.gguf"},
    {"gemma3", nullptr, "gemma-3-270m-q4_k_m.gguf"},
};

std::string PathOf(const Oracle& oracle) {
  return oracle.test_data != nullptr ? TestData(oracle.test_data)
                                     : ModelHome() + "/" + oracle.model_home;
}

class TokenizerOracle : public testing::TestWithParam<Oracle> {
 protected:
  void SetUp() override {
    const std::string path = PathOf(GetParam());
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    Result<Tokenizer> loaded = LoadTokenizer(path);
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
  for (const auto& row : ReadJsonLines("tok/texts.jsonl")) {
    texts[StringOf(row.at("id"))] = StringOf(row.at("text"));
  }
  const auto rows = ReadJsonLines(File(".jsonl"));
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
  for (const auto& row : ReadJsonLines(File(".decode.jsonl"))) {
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
  for (const auto& row : ReadJsonLines("tok/invalid_utf8.jsonl")) {
    const std::string bytes = FromHex(StringOf(row.at("hex")));
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), StringOf(row.at("replaced"))) << row.at("hex");
    EXPECT_EQ(Encode(bytes, SpecialTokens::kAsText), IntsOf(row.at("ids").at(GetParam().name)))
        << row.at("hex");
  }
}

std::string NameOf(const testing::TestParamInfo<Oracle>& named) {
  std::string name = named.param.name;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerOracle, testing::ValuesIn(kOracles), NameOf);

}  // namespace
}  // namespace remontoir
