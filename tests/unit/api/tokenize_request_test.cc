// What routers ask about tokens: each field, the field that an error names, and the replies.
#include "api/tokenize_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/responses.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

struct Wrong {
  const char* body;
  const char* param;
  const char* message_part;
};

void ExpectError(const Wrong& wrong, const std::optional<ErrorBody>& error) {
  ASSERT_TRUE(error.has_value()) << wrong.body;
  EXPECT_EQ(error->http_status, 400) << wrong.body;
  EXPECT_EQ(error->type, "invalid_request_error") << wrong.body;
  EXPECT_EQ(error->param, wrong.param) << wrong.body;
  EXPECT_THAT(error->message, HasSubstr(wrong.message_part)) << wrong.body;
}

TEST(TokenizeRequest, ErrorsNameTheField) {
  const Wrong cases[] = {
      {"", "", "not valid JSON"},
      {"[]", "", "must be a JSON object"},
      {"{}", "prompt", "is missing, and so is messages"},
      {R"({"prompt":null})", "prompt", "is missing"},
      {R"({"prompt":["a"]})", "prompt", "must be a string, got an array"},
      {R"({"prompt":"a","add_special_tokens":1})", "add_special_tokens", "must be a boolean"},
      {R"({"prompt":"a","return_token_strs":"yes"})", "return_token_strs", "must be a boolean"},
      {R"({"prompt":"a","model":1})", "model", "must be a string"},
      {R"({"prompt":"a","messages":[{"role":"user","content":"b"}]})", "prompt",
       "must not come with messages"},
      {R"({"messages":[]})", "messages", "must not be empty"},
      {R"({"messages":[{"role":"robot","content":"a"}]})", "messages[0].role", "\"robot\""},
      {R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":1})",
       "add_generation_prompt", "must be a boolean"},
  };
  for (const Wrong& wrong : cases) {
    TokenizeRequest request;
    ExpectError(wrong, ParseTokenizeRequest(wrong.body, request));
  }
}

TEST(TokenizeRequest, TakesTextOrAChat) {
  TokenizeRequest text;
  EXPECT_FALSE(ParseTokenizeRequest(R"({"model":"m","prompt":"","messages":null})", text));
  EXPECT_EQ(text.model, "m");
  EXPECT_FALSE(text.is_chat || text.return_token_strs);
  EXPECT_TRUE(text.add_special_tokens);

  TokenizeRequest chat;
  EXPECT_FALSE(ParseTokenizeRequest(
      R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false,)"
      R"("add_special_tokens":false,"return_token_strs":true,"tools":[{"b":1}]})",
      chat));
  EXPECT_TRUE(chat.is_chat && chat.return_token_strs);
  EXPECT_FALSE(chat.add_special_tokens || chat.chat.add_generation_prompt);
  EXPECT_EQ(chat.chat.messages_json, R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(chat.chat.tools_json, R"([{"b":1}])");
}

TEST(DetokenizeRequest, ErrorsNameTheField) {
  const Wrong cases[] = {
      {"{", "", "not valid JSON"},
      {"{}", "tokens", "is missing"},
      {R"({"tokens":"a"})", "tokens", "must be an array of token ids, got a string"},
      {R"({"tokens":[1,"a"]})", "tokens[1]", "must be a token id"},
      {R"({"tokens":[-1]})", "tokens[0]", "must be a token id"},
      {R"({"tokens":[1.5]})", "tokens[0]", "must be a token id"},
      {R"({"tokens":[2147483648]})", "tokens[0]", "must be a token id"},
      {R"({"tokens":[],"model":[]})", "model", "must be a string"},
  };
  for (const Wrong& wrong : cases) {
    DetokenizeRequest request;
    ExpectError(wrong, ParseDetokenizeRequest(wrong.body, request));
  }
}

TEST(DetokenizeRequest, TakesTokensUpToItsBound) {
  DetokenizeRequest none;
  EXPECT_FALSE(ParseDetokenizeRequest(R"({"tokens":[]})", none));
  EXPECT_TRUE(none.tokens.empty());
  DetokenizeRequest two;
  EXPECT_FALSE(ParseDetokenizeRequest(R"({"tokens":[0,2147483647],"model":"m"})", two));
  EXPECT_EQ(two.tokens, (std::vector<TokenId>{TokenId{0}, TokenId{2147483647}}));
  EXPECT_EQ(two.model, "m");

  std::string zeros;
  for (size_t i = 0; i < kDetokenizeTokensMax; ++i) zeros += i == 0 ? "0" : ",0";
  DetokenizeRequest most;
  EXPECT_FALSE(ParseDetokenizeRequest(R"({"tokens":[)" + zeros + "]}", most));
  EXPECT_EQ(most.tokens.size(), kDetokenizeTokensMax);
  const std::string more = R"({"tokens":[0,)" + zeros + "]}";
  DetokenizeRequest refused;
  ExpectError({more.c_str(), "tokens", "must be at most 1048576 tokens, got 1048577"},
              ParseDetokenizeRequest(more, refused));
}

TEST(TokensJson, WritesSpellingsOnlyWhenAskedTo) {
  const std::vector<TokenId> tokens = {TokenId{7}, TokenId{0}};
  EXPECT_EQ(TokensJson(tokens, 512, nullptr), R"({"count":2,"max_model_len":512,"tokens":[7,0]})");
  const std::vector<std::string_view> spellings = {"a", "\""};
  EXPECT_EQ(TokensJson(tokens, 512, &spellings),
            R"({"count":2,"max_model_len":512,"tokens":[7,0],"token_strs":["a","\""]})");
  EXPECT_EQ(TokensJson({}, 512, nullptr), R"({"count":0,"max_model_len":512,"tokens":[]})");
}

TEST(PromptJson, WritesText) { EXPECT_EQ(PromptJson("a\n"), R"({"prompt":"a\n"})"); }

TEST(RenderedChatJson, WritesTheIds) {
  const std::vector<TokenId> tokens = {TokenId{7}};
  EXPECT_EQ(RenderedChatJson("m", tokens), R"({"model":"m","token_ids":[7]})");
}

TEST(ModelInfoJson, TellsWhatRoutersAskFor) {
  EXPECT_EQ(ModelInfoJson({"dir/m.gguf", "m", 512}),
            R"({"model_path":"dir/m.gguf","tokenizer_path":"dir/m.gguf","served_model_name":"m",)"
            R"("is_generation":true,"max_model_len":512})");
}

TEST(ServerInfoJson, TellsWhatTheServerHasRoomFor) {
  const ServerFacts server = {"1.2.3", {"dir/m.gguf", "m", 512}, {"n", "o"}, 8, 256, 4096, "cpu"};
  EXPECT_EQ(ServerInfoJson(server),
            R"({"version":"1.2.3","model_path":"dir/m.gguf","served_model_name":"m",)"
            R"("aliases":["n","o"],"max_model_len":512,"sequences_max":8,"queue_max":256,)"
            R"("kv_room_tokens":4096,"backend":"cpu"})");
}

}  // namespace
}  // namespace remontoir
