// What routers ask a worker, over a socket: tokens of prompts and chats, and what it serves.
#include <gmock/gmock.h>

#include "server/service.h"
#include "server/tokenize_handler.h"
#include "tests/unit/server/service_fixture.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

constexpr char kTokenize[] = "/tokenize";
constexpr char kDetokenize[] = "/detokenize";
constexpr char kRender[] = "/v1/chat/completions/render";
constexpr char kHi[] = R"({"messages":[{"role":"user","content":"hi"}])";

// The ids of the bytes as JSON, and what goes after them.
std::string Ids(std::string_view text, std::string_view after = "") {
  std::string json = "[";
  for (const char c : text) json += (json.size() > 1 ? "," : "") + std::to_string(c);
  return json + std::string(after) + "]";
}

TEST(Tokenize, AnswersWithThePromptsTokens) {
  ServiceUnderTest test;
  test.Start();
  const auto response = test.Ask("POST", kTokenize, R"({"model":"abc","prompt":"hi<|end|>"})");
  EXPECT_EQ(response.status(), 200);
  EXPECT_TRUE(response.Has("x-request-id: req_"));
  EXPECT_TRUE(response.Has("Content-Type: application/json\r\n"));
  EXPECT_EQ(response.body, R"({"count":3,"max_model_len":512,"tokens":[104,105,256]})");
  EXPECT_EQ(test.Ask("POST", kTokenize, R"({"prompt":""})").body,
            R"({"count":0,"max_model_len":512,"tokens":[]})");
  EXPECT_EQ(test.Ask("POST", kTokenize, R"({"prompt":"a <|end|>","return_token_strs":true})").body,
            R"({"count":3,"max_model_len":512,"tokens":[97,32,256],)"
            R"("token_strs":["a","Ġ","<|end|>"]})");
}

TEST(Tokenize, AddsTheBosWhereTheVocabularyWantsIt) {
  ServiceCase with_bos;
  with_bos.add_bos = true;
  ServiceUnderTest test(with_bos);
  test.Start();
  const auto tokens = [&](const char* body) {
    return boost::json::serialize(test.AskJson(kTokenize, body).at("tokens"));
  };
  EXPECT_EQ(tokens(R"({"prompt":"a"})"), "[257,97]");
  EXPECT_EQ(tokens(R"({"prompt":"a","add_special_tokens":false})"), "[97]");
}

TEST(Tokenize, CountsAChatAsAnAnswerDoes) {
  ServiceUnderTest test;
  test.Start();
  const auto with = test.AskJson(kTokenize, std::string(kHi) + "}");
  EXPECT_EQ(boost::json::serialize(with.at("tokens")), Ids("user:hi\nassistant:", ",257"));
  const auto without =
      test.AskJson(kTokenize, std::string(kHi) + R"(,"add_generation_prompt":false})");
  EXPECT_EQ(boost::json::serialize(without.at("tokens")), Ids("user:hi\n"));
  const auto answer =
      test.AskJson("/v1/chat/completions", std::string(kHi) + R"(,"max_tokens":1})");
  EXPECT_EQ(with.at("count"), answer.at("usage").at("prompt_tokens"));
}

TEST(Detokenize, GivesTheTextBack) {
  ServiceUnderTest test;
  test.Start();
  EXPECT_EQ(test.Ask("POST", kDetokenize, R"({"tokens":[104,105,256]})").body,
            R"({"prompt":"hi<|end|>"})");
  EXPECT_EQ(test.Ask("POST", kDetokenize, R"({"tokens":[]})").body, R"({"prompt":""})");
  EXPECT_EQ(test.Ask("POST", kDetokenize, R"({"tokens":[97,255]})").body,
            "{\"prompt\":\"a\xef\xbf\xbd\"}");
}

TEST(RenderChat, AnswersWithTheIdsEveryTime) {
  ServiceUnderTest test;
  test.Start();
  const std::string plain =
      R"({"model":"alphabet","token_ids":)" + Ids("user:hi\nassistant:", ",257") + "}";
  // The second of two comes from the cache; a request that differs doesn't.
  EXPECT_EQ(test.Ask("POST", kRender, std::string(kHi) + "}").body, plain);
  EXPECT_EQ(test.Ask("POST", kRender, std::string(kHi) + "}").body, plain);
  const auto named = test.AskJson(kRender, std::string(kHi) + R"(,"model":"abc","temperature":0})");
  EXPECT_EQ(named.at("model").as_string(), "abc");
  EXPECT_EQ(boost::json::serialize(named.at("token_ids")), Ids("user:hi\nassistant:", ",257"));
}

TEST(RenderChat, RendersOneBodyOnce) {
  ServiceUnderTest test;
  test.Start();
  const Tokenizer tokenizer = MakeTinyTokenizer();
  const auto chat_template = ChatTemplate::Compile("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(chat_template.ok());
  ServedModel model;
  model.tokenizer = &tokenizer;
  model.chat_template = &*chat_template;
  model.engine = test.engine.get();
  model.names.primary = "m";
  RenderCache cache;
  constexpr int64_t kIn2001 = 993'000'000;
  constexpr int64_t kIn2002 = 1'024'000'000;
  const std::string body = std::string(kHi) + "}";
  const auto ids = [&](int64_t now) {
    return std::get<std::string>(RenderChat(body, model, now, cache));
  };
  const std::string first = ids(kIn2001);
  EXPECT_EQ(first, R"({"model":"m","token_ids":)" + Ids("2001") + "}");
  const std::string* const kept = cache.Find(body, kIn2001);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(*kept, first);
  cache.Add(body, "kept", kIn2001);
  EXPECT_EQ(ids(kIn2001 + 1), "kept");
  EXPECT_EQ(ids(kIn2002), R"({"model":"m","token_ids":)" + Ids("2002") + "}");
}

struct Refusal {
  const char* path;
  std::string body;
  int status;
  const char* param;
};

TEST(RouterEndpoints, RefuseWithTheApisErrors) {
  ServiceUnderTest test;
  test.Start();
  const std::string tool = R"({"messages":[{"role":"tool","content":"a","tool_call_id":"1"}]})";
  const Refusal cases[] = {
      {kTokenize, "{", 400, "null"},
      {kTokenize, "{}", 400, "\"prompt\""},
      {kTokenize, R"({"prompt":"a","model":"gpt-4"})", 404, "\"model\""},
      {kTokenize, tool, 400, "\"messages\""},
      {kDetokenize, "{}", 400, "\"tokens\""},
      {kDetokenize, R"({"tokens":[999]})", 400, "\"tokens\""},
      {kDetokenize, R"({"tokens":[1],"model":"gpt-4"})", 404, "\"model\""},
      {kRender, "{}", 400, "\"messages\""},
      {kRender, std::string(kHi) + R"(,"model":"gpt-4"})", 404, "\"model\""},
      {kRender, std::string(kHi) + R"(,"temperature":3})", 400, "\"temperature\""},
      {kRender, tool, 400, "\"messages\""},
  };
  for (const Refusal& refusal : cases) {
    // What was refused once is refused again.
    for (int i = 0; i < 2; ++i) {
      const auto response = test.Ask("POST", refusal.path, refusal.body);
      ASSERT_EQ(response.status(), refusal.status) << refusal.path << " " << refusal.body;
      const auto error = boost::json::parse(response.body).at("error");
      EXPECT_EQ(boost::json::serialize(error.at("param")), refusal.param)
          << refusal.path << " " << refusal.body;
    }
  }
}

TEST(RouterEndpoints, SayThatAModelHasNoChatTemplate) {
  ServiceCase plain;
  plain.has_chat_template = false;
  ServiceUnderTest test(plain);
  test.Start();
  for (const char* path : {kTokenize, kRender}) {
    const auto response = test.Ask("POST", path, std::string(kHi) + "}");
    EXPECT_EQ(response.status(), 400) << path;
    EXPECT_THAT(response.body, HasSubstr("chat template")) << path;
  }
  EXPECT_EQ(test.Ask("POST", kTokenize, R"({"prompt":"a"})").status(), 200);
}

TEST(RouterEndpoints, TakeTheirMethodWithAKeyOnceTheModelIsThere) {
  constexpr char kKey[] = "Authorization: Bearer sk-1\r\n";
  ServiceCase keyed;
  keyed.service.api_keys = ApiKeys({"sk-1"});
  keyed.serve = false;
  ServiceUnderTest test(keyed);
  test.Start();
  const std::pair<const char*, const char*> endpoints[] = {
      {"POST", kTokenize},         {"POST", kDetokenize},   {"POST", kRender},
      {"GET", "/model_info"},      {"GET", "/server_info"}, {"GET", "/get_model_info"},
      {"GET", "/get_server_info"},
  };
  for (const auto& [method, path] : endpoints) {
    EXPECT_EQ(test.Ask("PUT", path, "", kKey).status(), 405) << path;
    EXPECT_EQ(test.Ask(method, path).status(), 401) << path;
    EXPECT_EQ(test.Ask(method, path, "", kKey).status(), 503) << path;
  }
  test.Serve();
  EXPECT_TRUE(Await([&] { return test.Ask("GET", "/health").status() == 200; }));
  for (const auto& [method, path] : endpoints) {
    EXPECT_NE(test.Ask(method, path, "", kKey).status(), 503) << path;
    EXPECT_EQ(test.Ask(method, path).status(), 401) << path;
  }
}

TEST(RouterEndpoints, TellWhatIsServed) {
  ServiceUnderTest test;
  test.Start();
  for (const char* path : {"/model_info", "/get_model_info"}) {
    EXPECT_EQ(test.Ask("GET", path).body,
              R"({"model_path":"dir/alphabet.gguf","tokenizer_path":"dir/alphabet.gguf",)"
              R"("served_model_name":"alphabet","is_generation":true,"max_model_len":512})");
  }
  for (const char* path : {"/server_info", "/get_server_info"}) {
    EXPECT_EQ(test.Ask("GET", path).body,
              R"({"version":"1.2.3","model_path":"dir/alphabet.gguf",)"
              R"("served_model_name":"alphabet","aliases":["abc"],"max_model_len":512,)"
              R"("sequences_max":4,"queue_max":8,"kv_room_tokens":4096,"backend":"letters"})");
  }
}

}  // namespace
}  // namespace remontoir
