// The service as a client sees it: routes, answers whole and streamed, refusals, leaving.
#include "server/service.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/server/service_fixture.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kCompletions[] = "/v1/completions";

std::string Text(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
}

// The field's text, or "null".
std::string ErrorField(const RawClient::Response& response, const char* field) {
  return Text(boost::json::parse(response.body).at("error").at(field));
}

TEST(Service, AnswersACompletion) {
  ServiceUnderTest test;
  test.Start();
  const auto response =
      test.Ask("POST", kCompletions, R"({"prompt":"vw","temperature":0,"model":"abc"})");
  EXPECT_EQ(response.status(), 200);
  EXPECT_TRUE(response.Has("X-Inference-Version: 1.2.3-dynamic-batch\r\n"));
  EXPECT_TRUE(response.Has("x-request-id: req_"));
  EXPECT_TRUE(response.Has("openai-processing-ms: "));
  EXPECT_TRUE(response.Has("Content-Type: application/json\r\n"));
  const auto json = boost::json::parse(response.body);
  EXPECT_EQ(Text(json.at("object")), "text_completion");
  EXPECT_EQ(Text(json.at("model")), "abc");
  EXPECT_EQ(Text(json.at("id")).substr(0, 5), "cmpl-");
  const auto& choice = json.at("choices").at(0);
  EXPECT_EQ(Text(choice.at("text")), "xyz");
  EXPECT_EQ(Text(choice.at("finish_reason")), "stop");
  EXPECT_EQ(boost::json::serialize(json.at("usage")),
            R"({"prompt_tokens":2,"completion_tokens":4,"total_tokens":6,)"
            R"("prompt_tokens_details":{"cached_tokens":0}})");
}

TEST(Service, StreamsTheApisSequenceOfChunks) {
  ServiceUnderTest test;
  test.Start();
  const auto events = test.AskStream(
      kChat, R"({"messages":[{"role":"user","content":"hi"}],"temperature":0,"max_tokens":2,)"
             R"("stream":true,"stream_options":{"include_usage":true}})");
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events.back(), "[DONE]");
  std::vector<std::string> deltas;
  std::string id;
  for (size_t i = 0; i < 5; ++i) {
    const auto chunk = boost::json::parse(events[i]);
    EXPECT_EQ(Text(chunk.at("object")), "chat.completion.chunk");
    if (i == 0) id = Text(chunk.at("id"));
    EXPECT_EQ(Text(chunk.at("id")), id);
    EXPECT_EQ(Text(chunk.at("model")), "alphabet");
    EXPECT_EQ(chunk.at("usage").is_null(), i < 4);
    if (i == 4) {
      EXPECT_TRUE(chunk.at("choices").as_array().empty());
      EXPECT_EQ(chunk.at("usage").at("completion_tokens").as_int64(), 2);
      break;
    }
    const auto& choice = chunk.at("choices").at(0);
    deltas.push_back(boost::json::serialize(choice.at("delta")) + " " +
                     Text(choice.at("finish_reason")));
  }
  EXPECT_THAT(deltas,
              ElementsAre(R"({"role":"assistant","content":""} null)", R"({"content":"a"} null)",
                          R"({"content":"b"} null)", R"({} length)"));
  const auto whole =
      test.Ask("POST", kChat, R"({"messages":[{"role":"user","content":"hi"}],"temperature":0})");
  const auto json = boost::json::parse(whole.body);
  EXPECT_EQ(Text(json.at("choices").at(0).at("message").at("content")),
            "abcdefghijklmnopqrstuvwxyz");
}

TEST(Service, StreamsWithTheHeadersThatKeepProxiesFromBuffering) {
  ServiceUnderTest test;
  test.Start();
  const auto response = test.Ask("POST", kCompletions, R"({"prompt":"y","stream":true})");
  EXPECT_TRUE(response.Has("Content-Type: text/event-stream\r\n"));
  EXPECT_TRUE(response.Has("Cache-Control: no-cache\r\n"));
  EXPECT_TRUE(response.Has("X-Accel-Buffering: no\r\n"));
  EXPECT_TRUE(response.Has("x-request-id: req_"));
  EXPECT_TRUE(response.Has("X-Inference-Version: 1.2.3-dynamic-batch\r\n"));
}

TEST(Service, ScoresAnEchoedPrompt) {
  ServiceUnderTest test;
  test.Start();
  const auto json =
      test.AskJson(kCompletions, R"({"prompt":"abd","max_tokens":0,"echo":true,"logprobs":1})");
  const auto& choice = json.at("choices").at(0);
  EXPECT_EQ(Text(choice.at("text")), "abd");
  EXPECT_EQ(Text(choice.at("finish_reason")), "length");
  const auto& logprobs = choice.at("logprobs");
  EXPECT_EQ(boost::json::serialize(logprobs.at("tokens")), R"(["a","b","d"])");
  const auto& values = logprobs.at("token_logprobs").as_array();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_TRUE(values[0].is_null());
  EXPECT_NEAR(values[1].to_number<double>(), 0, 1e-3);
  EXPECT_NEAR(values[2].to_number<double>(), -20, 1e-3);
  EXPECT_EQ(logprobs.at("top_logprobs").at(2).as_object().size(), 2u);
  EXPECT_EQ(boost::json::serialize(logprobs.at("text_offset")), "[0,1,2]");
  EXPECT_EQ(json.at("usage").at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(json.at("usage").at("prompt_tokens").as_int64(), 3);
}

TEST(Service, ScoresManyPromptsAtOnce) {
  ServiceUnderTest test;
  test.Start();
  // More scored tokens than the loop writes itself.
  const std::string prompt = std::string(400, 'p');
  const auto json = test.AskJson(kCompletions, R"({"max_tokens":0,"echo":true,"logprobs":1,)"
                                               R"("prompt":[")" +
                                                   prompt + R"(",")" + prompt + R"("]})");
  for (int i = 0; i < 2; ++i) {
    const auto& logprobs = json.at("choices").at(i).at("logprobs");
    EXPECT_EQ(logprobs.at("tokens").as_array().size(), 400u);
    EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
  }
}

TEST(Service, EchoesAPromptInFrontOfItsContinuation) {
  ServiceUnderTest test;
  test.Start();
  for (const char* prompt : {R"("xy")", "[120,121]"}) {
    const auto json = test.AskJson(
        kCompletions, R"({"echo":true,"temperature":0,"prompt":)" + std::string(prompt) + "}");
    EXPECT_EQ(Text(json.at("choices").at(0).at("text")), "xyz");
  }
}

TEST(Service, SpellsControlTokensOnRequest) {
  ServiceUnderTest test;
  test.Start();
  const auto json = test.AskJson(
      kCompletions,
      R"({"prompt":"y","temperature":0,"max_tokens":5,"ignore_eos":true,"skip_special_tokens":false})");
  EXPECT_EQ(Text(json.at("choices").at(0).at("text")), "z<|end|><|start|>ab");
  const auto skipped = test.AskJson(
      kCompletions, R"({"prompt":"y","temperature":0,"max_tokens":5,"ignore_eos":true})");
  EXPECT_EQ(Text(skipped.at("choices").at(0).at("text")), "zab");
}

TEST(Service, AnswersEveryPromptAndChoiceInOrder) {
  ServiceUnderTest test;
  test.Start();
  const std::string body = R"({"prompt":["x","w"],"n":2,"temperature":0,"seed":7,"stop":"zz")";
  const auto json = test.AskJson(kCompletions, body + "}");
  const auto& choices = json.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  const char* texts[] = {"yz", "yz", "xyz", "xyz"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(Text(choices[i].at("text")), texts[i]);
  }
  EXPECT_EQ(json.at("usage").at("prompt_tokens").as_int64(), 2);
  EXPECT_EQ(json.at("usage").at("completion_tokens").as_int64(), 3 + 3 + 4 + 4);
  std::string streamed[4];
  for (const std::string& event : test.AskStream(kCompletions, body + R"(,"stream":true})")) {
    if (event == "[DONE]") continue;
    const auto chunk = boost::json::parse(event);
    const auto& choice = chunk.at("choices").at(0);
    streamed[choice.at("index").as_int64()] += Text(choice.at("text"));
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(streamed[i], texts[i]);
}

TEST(Service, EndsAtAStopStringAndFreesTheSequence) {
  ServiceUnderTest test;
  test.Start();
  const auto json = test.AskJson(
      kCompletions, R"({"prompt":"a","temperature":0,"max_tokens":300,"stop":["ef","q"]})");
  EXPECT_EQ(Text(json.at("choices").at(0).at("text")), "bcd");
  EXPECT_EQ(Text(json.at("choices").at(0).at("finish_reason")), "stop");
  EXPECT_TRUE(test.AwaitIdleEngine());
}

TEST(Service, DrawsTheSameForTheSameSeed) {
  ServiceUnderTest test;
  test.Start();
  const std::string body = R"({"prompt":"a","temperature":2,"max_tokens":20,"n":2,"logit_bias":)"
                           R"({"98":-20,"99":-20,"100":-20},"seed":)";
  const auto first = test.AskJson(kCompletions, body + "5}").at("choices");
  const auto again = test.AskJson(kCompletions, body + "5}").at("choices");
  EXPECT_EQ(boost::json::serialize(first), boost::json::serialize(again));
  EXPECT_NE(Text(first.at(0).at("text")), Text(first.at(1).at("text")));
}

TEST(Service, AddsTheBosThatTheVocabularyAsksFor) {
  ServiceCase with_bos;
  with_bos.add_bos = true;
  ServiceUnderTest test(with_bos);
  test.Start();
  const auto json = test.AskJson(
      kCompletions, R"({"prompt":"","max_tokens":2,"temperature":0,"echo":true,"logprobs":0})");
  EXPECT_EQ(Text(json.at("choices").at(0).at("text")), "ab");
  EXPECT_EQ(boost::json::serialize(json.at("choices").at(0).at("logprobs").at("tokens")),
            R"(["<|start|>","a","b"])");
  EXPECT_EQ(json.at("usage").at("prompt_tokens").as_int64(), 1);
}

struct Refusal {
  const char* method;
  const char* path;
  std::string body;
  int status;
  const char* code;
  const char* param;
};

TEST(Service, RefusesWithTheApisErrors) {
  ServiceUnderTest test;
  test.Start();
  const std::string long_prompt = R"({"prompt":")" + std::string(600, 'a') + R"("})";
  const std::string long_chat =
      R"({"messages":[{"role":"user","content":")" + std::string(600, 'a') + R"("}]})";
  const Refusal cases[] = {
      {"GET", "/nowhere", "", 404, "not_found", "null"},
      {"POST", "/v1/modelsX", "", 404, "not_found", "null"},
      {"GET", kChat, "", 405, "method_not_allowed", "null"},
      {"DELETE", "/v1/models", "", 405, "method_not_allowed", "null"},
      {"POST", "/health", "", 405, "method_not_allowed", "null"},
      {"POST", kChat, "{", 400, "null", "null"},
      {"POST", kChat, "{}", 400, "invalid_value", "messages"},
      {"POST", kCompletions, R"({"prompt":"a","temperature":3})", 400, "invalid_value",
       "temperature"},
      {"POST", kCompletions, R"({"prompt":""})", 400, "invalid_value", "prompt"},
      {"POST", kCompletions, R"({"prompt":["a",""]})", 400, "invalid_value", "prompt[1]"},
      {"POST", kCompletions, R"({"prompt":[999]})", 400, "invalid_value", "prompt"},
      {"POST", kCompletions, R"({"prompt":"a","logit_bias":{"999":1}})", 400, "invalid_value",
       "logit_bias"},
      {"POST", kCompletions, R"({"prompt":"a","model":"gpt-4"})", 404, "model_not_found", "model"},
      {"GET", "/v1/models/gpt-4", "", 404, "model_not_found", "model"},
      {"POST", kCompletions, long_prompt, 400, "context_length_exceeded", "prompt"},
      {"POST", kChat, long_chat, 400, "context_length_exceeded", "messages"},
      {"POST", kCompletions, R"({"prompt":"a","max_tokens":100000})", 400,
       "context_length_exceeded", "prompt"},
  };
  for (const Refusal& refusal : cases) {
    const auto response = test.Ask(refusal.method, refusal.path, refusal.body);
    const std::string what = std::string(refusal.method) + " " + refusal.path + " " + refusal.body;
    ASSERT_EQ(response.status(), refusal.status) << what;
    EXPECT_TRUE(response.Has("x-request-id: req_")) << what;
    EXPECT_TRUE(response.Has("X-Inference-Version: 1.2.3-dynamic-batch\r\n")) << what;
    EXPECT_EQ(ErrorField(response, "code"), refusal.code) << what;
    EXPECT_EQ(ErrorField(response, "param"), refusal.param) << what;
    EXPECT_EQ(ErrorField(response, "type"), "invalid_request_error") << what;
    if (std::string(refusal.code) == "context_length_exceeded") {
      EXPECT_THAT(ErrorField(response, "message"), HasSubstr("token limit exceeded")) << what;
    }
    EXPECT_EQ(response.Has("\r\nAllow: "), refusal.status == 405) << what;
  }
}

TEST(Service, AnswersErrorsOfHttpItselfInTheApisShape) {
  ServiceUnderTest test;
  test.Start();
  RawClient client(test.service->port());
  client.Send("nonsense\r\n\r\n");
  const auto response = client.ReadResponse();
  EXPECT_EQ(response.status(), 400);
  EXPECT_TRUE(response.Has("x-request-id: req_"));
  EXPECT_EQ(ErrorField(response, "type"), "invalid_request_error");
}

TEST(Service, ListsItsModelUnderEveryName) {
  ServiceUnderTest test;
  test.Start();
  const auto list = boost::json::parse(test.Ask("GET", "/v1/models").body);
  ASSERT_EQ(list.at("data").as_array().size(), 2u);
  EXPECT_EQ(Text(list.at("data").at(0).at("id")), "alphabet");
  EXPECT_EQ(Text(list.at("data").at(1).at("id")), "abc");
  EXPECT_EQ(list.at("data").at(0).at("max_model_len").as_int64(), 512);
  for (const char* name : {"alphabet", "abc", "default", "%61bc"}) {
    EXPECT_EQ(test.Ask("GET", "/v1/models/" + std::string(name)).status(), 200) << name;
  }
}

TEST(Service, AnswersAnyModelNameWhenConfigured) {
  ServiceCase any;
  any.any_model_name = true;
  ServiceUnderTest test(any);
  test.Start();
  EXPECT_EQ(Text(test.AskJson(kCompletions, R"({"prompt":"x","model":"gpt-4"})").at("model")),
            "gpt-4");
}

TEST(Service, Says503WhileLoading) {
  ServiceCase loading;
  loading.serve = false;
  ServiceUnderTest test(loading);
  test.Start();
  for (const char* path : {"/health", "/v1/models"}) {
    const auto response = test.Ask("GET", path);
    EXPECT_EQ(response.status(), 503) << path;
    EXPECT_TRUE(response.Has("Retry-After: 1\r\n")) << path;
    EXPECT_EQ(ErrorField(response, "code"), "model_loading") << path;
  }
  EXPECT_EQ(test.Ask("POST", kCompletions, R"({"prompt":"x"})").status(), 503);
  test.Serve();
  EXPECT_TRUE(Await([&] { return test.Ask("GET", "/health").status() == 200; }));
}

TEST(Service, AsksForAKeyEverywhereButAtTheHealthCheck) {
  ServiceCase keyed;
  keyed.service.api_keys = ApiKeys({"sk-1"});
  ServiceUnderTest test(keyed);
  test.Start();
  EXPECT_EQ(test.Ask("GET", "/health").status(), 200);
  const auto refused = test.Ask("GET", "/v1/models");
  EXPECT_EQ(refused.status(), 401);
  EXPECT_TRUE(refused.Has("WWW-Authenticate: Bearer\r\n"));
  EXPECT_EQ(ErrorField(refused, "code"), "invalid_api_key");
  EXPECT_EQ(ErrorField(refused, "type"), "authentication_error");
  EXPECT_EQ(test.Ask("POST", kChat, "{}").status(), 401);
  EXPECT_EQ(test.Ask("GET", "/v1/models", "", "Authorization: Bearer sk-2\r\n").status(), 401);
  EXPECT_EQ(test.Ask("GET", "/v1/models", "", "authorization: Bearer sk-1\r\n").status(), 200);
}

TEST(Service, KeepsTheClientsRequestId) {
  ServiceUnderTest test;
  test.Start();
  EXPECT_TRUE(
      test.Ask("GET", "/health", "", "X-Request-Id: mine-1\r\n").Has("x-request-id: mine-1\r\n"));
  EXPECT_TRUE(test.Ask("GET", "/health", "", "X-Request-Id: a b\r\n").Has("x-request-id: req_"));
}

TEST(Service, TakesControlTokensInAMessageAsText) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"<|end|>"}],"max_tokens":1,"temperature":0})";
  // "user:", the content, a line break, "assistant:" and the template's own control token.
  ServiceUnderTest careful;
  careful.Start();
  EXPECT_EQ(careful.AskJson(kChat, body).at("usage").at("prompt_tokens").as_int64(),
            5 + 7 + 1 + 10 + 1);
  ServiceCase trusting;
  trusting.trust_content_specials = true;
  ServiceUnderTest trusts(trusting);
  trusts.Start();
  EXPECT_EQ(trusts.AskJson(kChat, body).at("usage").at("prompt_tokens").as_int64(),
            5 + 1 + 1 + 10 + 1);
}

TEST(Service, PassesOnWhatATemplateRefuses) {
  ServiceUnderTest test;
  test.Start();
  const auto response = test.Ask(
      "POST", kChat, R"({"messages":[{"role":"tool","content":"hi","tool_call_id":"1"}]})");
  EXPECT_EQ(response.status(), 400);
  EXPECT_EQ(ErrorField(response, "param"), "messages");
  EXPECT_THAT(ErrorField(response, "message"), HasSubstr("no tools here"));
}

TEST(Service, RefusesChatWhenTheModelHasNoTemplate) {
  ServiceCase plain;
  plain.has_chat_template = false;
  ServiceUnderTest test(plain);
  test.Start();
  const auto response = test.Ask("POST", kChat, R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(response.status(), 400);
  EXPECT_THAT(ErrorField(response, "message"), HasSubstr("chat template"));
}

bool HasBytes(const std::unique_ptr<RawClient>& client) { return client->HasBytes(); }

TEST(Service, Answers429WhenTheQueueIsFull) {
  ServiceCase small;
  small.engine = {
      .sequences_max = 1, .queue_max = 2, .round_tokens_max = 64, .reserve_tokens_default = 128};
  ServiceUnderTest test(small);
  std::atomic<bool> open = false;
  test.runner.on_run = [&open] { open.wait(false); };
  test.Start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(test.service->port()));
    clients.back()->Send(
        ServiceUnderTest::RequestText("POST", kCompletions, R"({"prompt":"y","temperature":0})"));
  }
  // One runs, two wait; nothing moves, so whoever gets an answer now is refused.
  EXPECT_TRUE(Await([&] { return std::ranges::count_if(clients, HasBytes) >= 5; }));
  open = true;
  open.notify_all();
  int answered = 0;
  for (const auto& client : clients) {
    const auto response = client->ReadResponse();
    answered += response.status() == 200;
    if (response.status() == 200) continue;
    EXPECT_EQ(response.status(), 429);
    EXPECT_TRUE(response.Has("retry-after-ms: 300\r\n"));
    EXPECT_TRUE(response.Has("Retry-After: 1\r\n"));
    EXPECT_EQ(ErrorField(response, "type"), "rate_limit_error");
  }
  EXPECT_GE(answered, 2);
  EXPECT_LE(answered, 3);
  EXPECT_TRUE(test.AwaitIdleEngine());
}

TEST(Service, FreesTheRoomOfClientsThatLeave) {
  ServiceUnderTest test;
  // The 400 tokens take two seconds and more then.
  test.runner.on_run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  test.Start();
  {
    std::vector<std::unique_ptr<RawClient>> leaving;
    for (int i = 0; i < 6; ++i) {  // four decode, two wait
      leaving.push_back(std::make_unique<RawClient>(test.service->port()));
      leaving.back()->Send(ServiceUnderTest::RequestText(
          "POST", kCompletions,
          R"({"prompt":"a","max_tokens":400,"ignore_eos":true,"stream":true})"));
    }
    EXPECT_TRUE(Await([&] { return std::ranges::count_if(leaving, HasBytes) == 4; }));
  }
  EXPECT_TRUE(test.AwaitIdleEngine());
  const EngineStats stats = test.engine->stats();
  EXPECT_EQ(stats.requests_finished, 0);
  EXPECT_GE(stats.requests_cancelled, 4);
}

TEST(Service, GivesConcurrentStreamsTheBytesTheyGetAlone) {
  ServiceUnderTest test;
  test.Start();
  std::vector<std::string> bodies;
  for (const char* prompt : {"a", "hello", "k", "xy"}) {
    bodies.push_back(R"({"messages":[{"role":"user","content":")" + std::string(prompt) +
                     R"("}],"seed":3,"max_tokens":40,"temperature":1.5,"stream":true})");
  }
  const auto contents = [](const std::string& stream) {
    std::string joined;
    for (size_t at = 0; (at = stream.find("\"choices\"", at)) != std::string::npos; ++at) {
      joined += stream.substr(at, stream.find("\n\n", at) - at);
    }
    return joined;
  };
  std::vector<std::string> alone;
  for (const std::string& body : bodies) {
    alone.push_back(contents(test.Ask("POST", kChat, body).body));
    EXPECT_NE(alone.back(), "");
  }
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(test.service->port()));
    clients.back()->Send(ServiceUnderTest::RequestText("POST", kChat, bodies[i % 4]));
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(contents(clients[i]->ReadResponse().body), alone[i % 4]);
}

}  // namespace
}  // namespace remontoir
