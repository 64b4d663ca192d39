// Facts about `remontoir tokenize`, line by line.
#include "apps/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/model_file.h"
#include "tests/support/paths.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

Tokenizer TinyTokenizer() {
  auto file = ModelFile::Open(TestData("tiny/tiny-llama.f32.gguf"));
  REM_CHECK(file.ok(), file.status().message());
  auto tokenizer = Tokenizer::FromModelFile(*file);
  REM_CHECK(tokenizer.ok(), tokenizer.status().message());
  return std::move(tokenizer).value();
}

std::string Answer(const std::string& line, const TokenizeOptions& options = {}) {
  const auto answer = TokenizeLine(TinyTokenizer(), options, line);
  return answer.ok() ? *answer : "error: " + answer.status().message();
}

TEST(TokenizeLine, GivesIdsOfATextAndNoBosOfItsOwn) {
  EXPECT_EQ(Answer(R"({"text": ""})"), "[]");
  EXPECT_EQ(Answer(R"({"text": "ab"})"), "[100, 101]");
}

TEST(TokenizeLine, ReadsControlTokensOnlyWhenAsked) {
  TokenizeOptions parse;
  parse.parse_special = true;
  EXPECT_EQ(Answer(R"({"text": "<|im_end|>"})", parse), "[2]");
  EXPECT_NE(Answer(R"({"text": "<|im_end|>"})"), "[2]");
}

TEST(TokenizeLine, GivesTheTextOfIdsAsAJsonString) {
  EXPECT_EQ(Answer(R"({"ids": [100, 37, 101, 2]})"), R"("a\"b<|im_end|>")");
  EXPECT_EQ(Answer(R"({"ids": []})"), R"("")");
}

TEST(TokenizeLine, NamesWhatIsWrongWithALine) {
  EXPECT_THAT(Answer("nonsense"), HasSubstr("not JSON"));
  EXPECT_THAT(Answer("[1]"), HasSubstr("\"text\""));
  EXPECT_THAT(Answer(R"({"text": 7})"), HasSubstr("\"text\""));
  EXPECT_THAT(Answer(R"({"ids": [288]})"), HasSubstr("288, expected 0 ... 287"));
  EXPECT_THAT(Answer(R"({"ids": [-1]})"), HasSubstr("-1"));
  TokenizeOptions decode;
  decode.decode = true;
  EXPECT_THAT(Answer(R"({"text": "a"})", decode), HasSubstr("\"ids\""));
}

}  // namespace
}  // namespace remontoir
