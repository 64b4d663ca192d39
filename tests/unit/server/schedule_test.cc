// A request's turn as a client sees it: what it may ask, what replies tell, how it is refused.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <variant>
#include <vector>

#include "server/chat_handler.h"
#include "server/completion_handler.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/server/service_fixture.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kCompletions[] = "/v1/completions";
constexpr char kTimings[] = "X-Timings: true\r\n";

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Schedule, OfWrongHeadersIsRefusedByTheirName) {
  ServiceUnderTest test;
  test.Start();
  for (const char* body : {R"({"prompt":"y"})", R"({"prompt":"y","stream":true})", "{"}) {
    for (const char* name : {"X-Priority", "X-No-Batch", "x-slo-ttft-ms", "X-Timings"}) {
      const auto response =
          test.Ask("POST", kCompletions, body, std::string(name) + ": sometimes\r\n");
      EXPECT_EQ(response.status(), 400) << body;
      EXPECT_THAT(response.body, HasSubstr(R"("param":")" + std::string(name) + "\"")) << body;
    }
  }
  const auto response = test.Ask("POST", kCompletions, R"({"prompt":"y","priority":101})");
  EXPECT_EQ(response.status(), 400);
  EXPECT_THAT(response.body, HasSubstr(R"("param":"priority")"));
}

TEST(Schedule, IsWishedInHeadersAndFields) {
  ServiceUnderTest test;
  test.Start();
  const Tokenizer tokenizer = MakeTinyTokenizer();
  const auto chat_template = ChatTemplate::Compile(kTinyChatTemplate);
  ASSERT_TRUE(chat_template.ok());
  const struct {
    ScheduleHeaders headers;
    ScheduleDefaults defaults;
    const char* fields;
    int32_t priority = 0;
    bool alone = false;
    int64_t first_token_us_max = 0;
  } kCases[] = {
      {{}, {}, ""},
      {{}, {}, R"(,"priority":-7)", -7},
      {{.priority = 5}, {}, R"(,"priority":-7,"n":2)", 5},
      {{.priority = 0}, {}, R"(,"priority":-7)", 0},
      {{.alone = true}, {}, R"(,"stream":true)", 0, true},
      {{}, {.single_when_not_streaming = true}, "", 0, true},
      {{}, {.single_when_not_streaming = true}, R"(,"stream":true)"},
      {{}, {.first_token_us_max = 900}, "", 0, false, 900},
      {{.first_token_us_max = 1000}, {.first_token_us_max = 900}, "", 0, false, 1000},
  };
  for (const auto& test_case : kCases) {
    SCOPED_TRACE(test_case.fields);
    ServedModel model;
    model.tokenizer = &tokenizer;
    model.chat_template = &*chat_template;
    model.engine = test.engine.get();
    model.schedule = test_case.defaults;
    const PlanInputs inputs = {.schedule = test_case.headers};
    const std::string fields = test_case.fields;
    for (const PlanOrError& planned :
         {PlanCompletion(R"({"prompt":["a","b"])" + fields + "}", model, inputs),
          PlanChat(R"({"messages":[{"role":"user","content":"a"}])" + fields + "}", model,
                   inputs)}) {
      const auto* plan = std::get_if<GenerationPlan>(&planned);
      ASSERT_NE(plan, nullptr) << std::get<ErrorBody>(planned).message;
      for (const PlannedChoice& choice : plan->choices) {
        EXPECT_EQ(choice.request.priority, test_case.priority);
        EXPECT_EQ(choice.request.alone, test_case.alone);
        EXPECT_EQ(choice.request.first_token_us_max, test_case.first_token_us_max);
      }
    }
  }
}

TEST(Schedule, IsToldInWholeAndStreamedReplies) {
  ServiceUnderTest test;
  test.Start();
  for (const char* end : {"}", R"(,"stream":true})", R"(,"n":2})", R"(,"n":2,"stream":true})"}) {
    for (const char* headers : {"", "X-No-Batch: true\r\n", "X-Priority: -3\r\n"}) {
      const auto response = test.Ask(
          "POST", kCompletions, std::string(R"({"prompt":"y","temperature":0)") + end, headers);
      SCOPED_TRACE(std::string(headers) + end);
      EXPECT_EQ(response.status(), 200) << response.body;
      EXPECT_THAT(HeaderOf(response.head, "X-TTFT-Predicted-Ms"), MatchesRegex("[1-9][0-9]*"));
      EXPECT_THAT(HeaderOf(response.head, "X-Batch-Size"), MatchesRegex("[12]"));
      EXPECT_EQ(HeaderOf(response.head, "X-Batch-Window-Ms"), "120");
      EXPECT_EQ(HeaderOf(response.head, "X-Batch-Policy"), "immediate");
      EXPECT_EQ(HeaderOf(response.head, "X-Batch-Wait-Ms"), "0");
      EXPECT_THAT(HeaderOf(response.head, "X-Queue-Ms"), MatchesRegex("[0-9]+"));
    }
  }
}

TEST(Schedule, IsNotToldWhereNothingIsGenerated) {
  ServiceUnderTest test;
  test.Start();
  for (const auto& response :
       {test.Ask("GET", "/health"), test.Ask("POST", kCompletions, "{"),
        test.Ask("POST", kCompletions, R"({"prompt":"a","max_tokens":9999})")}) {
    for (const char* name : {"X-TTFT-Predicted-Ms", "X-Batch-Size", "X-Batch-Policy"}) {
      EXPECT_EQ(HeaderOf(response.head, name), "-") << name;
    }
  }
}

TEST(StreamHeaders, ComeBeforeTheFirstToken) {
  std::promise<void> go;
  ServiceUnderTest test;
  test.runner.on_run = [released = go.get_future().share()] { released.wait(); };
  test.Start();
  RawClient client(test.service->port());
  client.Send(test.RequestText("POST", kCompletions, R"({"prompt":"y","stream":true})"));
  const std::string head = client.ReadThrough("\r\n\r\n");
  EXPECT_EQ(HeaderOf(head, "X-Batch-Size"), "1");
  EXPECT_EQ(HeaderOf(head, "X-KV-Cache-Strategy"), "bucketed_prealloc_v2");
  EXPECT_FALSE(client.HasBytes());
  go.set_value();
  EXPECT_THAT(client.ReadThrough("[DONE]"), HasSubstr("[DONE]"));
}

TEST(StreamHeaders, GoWithoutTheirRoundWhenItDoesNotCome) {
  std::promise<void> go;
  ServiceCase c;
  c.engine.sequences_max = 1;
  c.service.stream_headers_held_ms = 1;
  ServiceUnderTest test(c);
  test.runner.on_run = [released = go.get_future().share()] { released.wait(); };
  test.Start();
  RawClient first(test.service->port());
  first.Send(test.RequestText("POST", kCompletions, R"({"prompt":"y","stream":true})"));
  EXPECT_TRUE(Await([&] { return test.engine->stats().waiting == 0; }));
  first.ReadThrough("\r\n\r\n");
  RawClient second(test.service->port());
  second.Send(test.RequestText("POST", kCompletions, R"({"prompt":"y","stream":true})"));
  const std::string head = second.ReadThrough("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("200"));
  EXPECT_EQ(HeaderOf(head, "X-KV-Cache-Strategy"), "bucketed_prealloc_v2");
  EXPECT_EQ(HeaderOf(head, "X-Batch-Policy"), "immediate");
  EXPECT_NE(HeaderOf(head, "X-TTFT-Predicted-Ms"), "-");
  for (const char* name : {"X-Batch-Size", "X-Batch-Window-Ms", "X-Queue-Ms", "X-KV-Bucket"}) {
    EXPECT_EQ(HeaderOf(head, name), "-") << name;
  }
  go.set_value();
  EXPECT_THAT(second.ReadThrough("[DONE]"), HasSubstr("[DONE]"));
}

void ExpectTimings(const boost::json::value& reply, int32_t tokens) {
  const auto* timings = reply.as_object().if_contains("remontoir");
  ASSERT_NE(timings, nullptr) << boost::json::serialize(reply);
  const auto& told = timings->as_object();
  EXPECT_EQ(told.at("batch_size"), 1);
  EXPECT_EQ(told.at("batch_window_ms"), 120);
  EXPECT_EQ(told.at("batch_policy"), "immediate");
  EXPECT_EQ(told.at("cached_tokens"), 0);
  EXPECT_EQ(told.at("kv_strategy"), "bucketed_prealloc_v2");
  for (const char* name : {"ttft_predicted_ms", "ttft_ms", "queue_ms", "prefill_time_ms"}) {
    EXPECT_TRUE(told.at(name).is_double()) << name;
  }
  EXPECT_EQ(told.at("decode_step_0_latency_ms").is_double(), tokens > 1);
  EXPECT_GE(told.at("ttft_ms").as_double(), told.at("prefill_time_ms").as_double());
}

TEST(Timings, StandInTheWholeReplyOfWhoAsksForThem) {
  ServiceUnderTest test;
  test.Start();
  const std::string completion = R"({"prompt":"y","temperature":0,"max_tokens":1})";
  const std::string chat =
      R"({"messages":[{"role":"user","content":"a"}],"temperature":0,"max_tokens":3})";
  ExpectTimings(boost::json::parse(test.Ask("POST", kCompletions, completion, kTimings).body), 1);
  ExpectTimings(boost::json::parse(test.Ask("POST", kChat, chat, kTimings).body), 3);
  EXPECT_THAT(test.Ask("POST", kChat, chat).body, Not(HasSubstr("remontoir")));
}

TEST(Timings, StandInTheLastChunkOfAStream) {
  ServiceUnderTest test;
  test.Start();
  for (const std::string path : {kCompletions, kChat}) {
    for (const std::string fields :
         {"", R"(,"stream_options":{"include_usage":true})", R"(,"n":2)"}) {
      const std::string prompt =
          path == kChat ? R"("messages":[{"role":"user","content":"a"}])" : R"("prompt":"a")";
      const std::string body =
          "{" + prompt + R"(,"temperature":0,"max_tokens":3,"stream":true)" + fields + "}";
      SCOPED_TRACE(path + body);
      const std::string stream = test.Ask("POST", path, body, kTimings).body;
      ASSERT_EQ(CountOf(stream, "\"remontoir\""), 1) << stream;
      const size_t last = stream.rfind("data: {");
      const std::string chunk = stream.substr(last + 6, stream.find("\n\n", last) - last - 6);
      EXPECT_THAT(chunk, HasSubstr("\"batch_policy\":\"immediate\""));
      EXPECT_TRUE(boost::json::parse(chunk).is_object());
      EXPECT_THAT(stream, HasSubstr(chunk + "\n\ndata: [DONE]"));
    }
  }
}

double MetricOf(ServiceUnderTest& test, const std::string& sample) {
  const std::string page = test.Ask("GET", "/metrics").body;
  const size_t at = page.find("\n" + sample + " ");
  EXPECT_NE(at, std::string::npos) << sample;
  return at == std::string::npos ? -1 : std::strtod(page.c_str() + at + sample.size() + 2, nullptr);
}

// A new engine's costs are those of a small model: 6.3 ms a round and 1 ms a prompt token.
TEST(Deadline, ThatCantBeMetIsRefusedWithThePrediction) {
  const struct {
    const char* deadline_ms;
    size_t prompt_tokens;
    bool stream;
  } kCases[] = {
      {"1", 1, false},  // known before the prompt is read
      {"1", 400, true},
      {"100", 400, false},  // known once it is
      {"100", 400, true},
  };
  for (const auto& test_case : kCases) {
    ServiceUnderTest test;
    test.Start();
    const std::string asked = R"({"prompt":")" + std::string(test_case.prompt_tokens, 'a') +
                              (test_case.stream ? R"(","stream":true})" : "\"}");
    const auto response = test.Ask("POST", kCompletions, asked,
                                   std::string("x-slo-ttft-ms: ") + test_case.deadline_ms + "\r\n");
    SCOPED_TRACE(response.head + response.body);
    ASSERT_EQ(response.status(), 429);
    const boost::json::value body = boost::json::parse(response.body);
    const boost::json::value& error = body.at("error");
    EXPECT_EQ(error.at("code"), "deadline_unmet");
    EXPECT_EQ(error.at("type"), "rate_limit_error");
    EXPECT_TRUE(error.at("param").is_null());
    EXPECT_EQ(std::to_string(error.at("ttft_slo_ms").as_int64()), test_case.deadline_ms);
    const std::string predicted = std::to_string(error.at("ttft_predicted_ms").as_int64());
    EXPECT_EQ(HeaderOf(response.head, "X-TTFT-Predicted-Ms"), predicted);
    EXPECT_THAT(std::string(error.at("message").as_string()), HasSubstr(predicted + " ms"));
    EXPECT_GT(std::stoi(predicted), std::stoi(test_case.deadline_ms));
    const int retry_ms = std::stoi(HeaderOf(response.head, "retry-after-ms"));
    EXPECT_GE(retry_ms, 300);
    EXPECT_LE(retry_ms, 120'000);
    EXPECT_EQ(HeaderOf(response.head, "Retry-After"), std::to_string((retry_ms + 999) / 1000));
    EXPECT_EQ(MetricOf(test, R"(remontoir_requests_refused_total{reason="deadline"})"), 1);
    EXPECT_EQ(MetricOf(test, R"(remontoir_requests_refused_total{reason="queue_full"})"), 0);
    EXPECT_TRUE(test.AwaitIdleEngine());
  }
}

TEST(Deadline, ThatCanBeMetChangesNothing) {
  ServiceUnderTest test;
  test.Start();
  const auto response =
      test.Ask("POST", kCompletions, R"({"prompt":"y"})", "x-slo-ttft-ms: 60000\r\n");
  EXPECT_EQ(response.status(), 200);
  EXPECT_EQ(MetricOf(test, "remontoir_first_token_prediction_ratio_count"), 1);
}

TEST(Deadline, OfTheConfigurationHoldsForWhoSaysNone) {
  ServiceCase c;
  c.schedule.first_token_us_max = 1000;
  ServiceUnderTest test(c);
  test.Start();
  EXPECT_EQ(test.Ask("POST", kCompletions, R"({"prompt":"y"})").status(), 429);
  EXPECT_EQ(
      test.Ask("POST", kCompletions, R"({"prompt":"y"})", "x-slo-ttft-ms: 60000\r\n").status(),
      200);
}

TEST(ArrivalLogOfService, HoldsTimesAndCountsOfWhatTheEngineTook) {
  const TemporaryFolder folder;
  const std::string path = folder / "arrivals.csv";
  {
    ServiceCase c;
    c.service.arrival_log.path = path;
    ServiceUnderTest test(c);
    test.Start();
    for (const char* body :
         {R"({"prompt":"vw","temperature":0})", R"({"prompt":"abc","n":2,"max_tokens":5})", "{",
          R"({"prompt":"a","stream":true,"max_tokens":2})"}) {
      test.Ask("POST", kCompletions, body, "Authorization: Bearer sk-secret\r\n");
    }
  }
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  EXPECT_THAT(lines,
              ElementsAre("t_us,prompt_tokens,output_tokens,client_cell,device",
                          MatchesRegex("[0-9]+,2,4,[0-9]+,"), MatchesRegex("[0-9]+,3,10,[0-9]+,"),
                          MatchesRegex("[0-9]+,1,2,[0-9]+,")));
}

}  // namespace
}  // namespace remontoir
