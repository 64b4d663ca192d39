// Answers against their exact JSON.
#include "api/responses.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

#include "api/error_body.h"
#include "api/json_writer.h"

namespace remontoir {
namespace {

const ReplyHead kHead = {"id-1", 1700000000, "m"};
constexpr std::string_view kChunkStart =
    R"({"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"m",)";

std::string Chunk(std::string_view rest) { return std::string(kChunkStart) + std::string(rest); }

ReplyChoice TextChoice(std::string text, std::string finish_reason = "") {
  ReplyChoice choice;
  choice.text = std::move(text);
  choice.finish_reason = std::move(finish_reason);
  return choice;
}

TEST(JsonWriter, EscapesAndRepairsStrings) {
  const std::pair<std::string, std::string> cases[] = {
      {"", R"("")"},
      {"a\"b\\c\n\r\t", R"("a\"b\\c\n\r\t")"},
      {std::string("\0\x1f", 2), R"("\u0000\u001f")"},
      {"\x7f/\xe2\x82\xac", "\"\x7f/\xe2\x82\xac\""},
      {"a\xe2\x82", "\"a\xef\xbf\xbd\""}};
  for (const auto& [text, json] : cases) EXPECT_EQ(JsonWriter().String(text).Take(), json);
}

TEST(JsonWriter, WritesFloatsThatReadBack) {
  const std::pair<float, const char*> cases[] = {
      {0.0f, "0"},
      {-0.1f, "-0.1"},
      {-12.345678f, "-12.345678"},
      {1e-30f, "1e-30"},
      {-std::numeric_limits<float>::infinity(), "-9999.0"},
      {std::numeric_limits<float>::quiet_NaN(), "-9999.0"}};
  for (const auto& [number, json] : cases) EXPECT_EQ(JsonWriter().Float(number).Take(), json);
}

TEST(JsonWriter, PlacesCommas) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().EndArray().Key("b").BeginArray().Int(1).Bool(true);
  json.Null().BeginObject().EndObject().EndArray().Key("c").Raw("{}").EndObject();
  EXPECT_EQ(json.Take(), R"({"a":[],"b":[1,true,null,{}],"c":{}})");
}

TEST(Timings, AreMillisecondsAndNullWhereNothingWas) {
  JsonWriter json;
  json.BeginObject();
  WriteFields(json, {.ttft_predicted_us = 30'001,
                     .ttft_us = 25'000,
                     .queue_us = 7,
                     .prefill_us = 24'000,
                     .batch_size = 2,
                     .batch_window_ms = 120,
                     .batch_policy = "adaptive",
                     .batch_wait_us = 0,
                     .cached_tokens = 64,
                     .kv_strategy = "bucketed_prealloc_v2",
                     .kv_bucket_tokens = 2048,
                     .kv_init_us = 12});
  json.EndObject();
  EXPECT_EQ(json.Take(),
            R"({"ttft_predicted_ms":30.001,"ttft_ms":25.000,"queue_ms":0.007,)"
            R"("prefill_time_ms":24.000,"decode_step_0_latency_ms":null,"batch_size":2,)"
            R"("batch_window_ms":120,"batch_policy":"adaptive","batch_wait_ms":0.000,)"
            R"("cached_tokens":64,"kv_strategy":"bucketed_prealloc_v2","kv_bucket":2048,)"
            R"("kv_init_us":12})");
}

TEST(Timings, StandLastInWholeAnswersAndChunks) {
  const ReplyTimings timings;
  const ReplyChoice choice = TextChoice("a", "stop");
  JsonWriter fields;
  fields.BeginObject();
  WriteFields(fields, timings);
  fields.EndObject();
  const std::string end = ",\"remontoir\":" + fields.Take() + "}";
  for (const std::string& json :
       {ChatCompletionJson(kHead, {&choice, 1}, {}, &timings),
        CompletionJson(kHead, {&choice, 1}, {}, &timings),
        ChatChunkJson(kHead, choice, {}, &timings),
        CompletionChunkJson(kHead, choice, {true, Usage{}}, &timings),
        ChatUsageChunkJson(kHead, {}, &timings), CompletionUsageChunkJson(kHead, {}, &timings)}) {
    EXPECT_TRUE(json.ends_with(end)) << json;
    EXPECT_TRUE(boost::json::parse(json).is_object());
  }
}

TEST(ChatCompletionJson, ListsChoicesAndUsage) {
  const ReplyChoice choice = TextChoice("hi \"you\"", "stop");
  EXPECT_EQ(
      ChatCompletionJson(kHead, {&choice, 1}, {10, 4, 3}),
      R"({"id":"id-1","object":"chat.completion","created":1700000000,"model":"m","choices":[)"
      R"({"index":0,"message":{"role":"assistant","content":"hi \"you\"","refusal":null},)"
      R"("logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,)"
      R"("completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":3}}})");
}

TEST(ChatChunkJson, FollowsTheApisSequence) {
  EXPECT_EQ(ChatRoleChunkJson(kHead, 1, {}),
            Chunk(R"("choices":[{"index":1,"delta":{"role":"assistant","content":""},)"
                  R"("logprobs":null,"finish_reason":null}]})"));
  EXPECT_EQ(ChatChunkJson(kHead, TextChoice("a"), {true, std::nullopt}),
            Chunk(R"("choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,)"
                  R"("finish_reason":null}],"usage":null})"));
  ReplyChoice last = TextChoice("", "length");
  last.stop_detail = "kv_room";
  EXPECT_EQ(ChatChunkJson(kHead, last, {}),
            Chunk(R"("choices":[{"index":0,"delta":{},"logprobs":null,)"
                  R"("finish_reason":"length","stop_detail":"kv_room"}]})"));
  EXPECT_EQ(ChatUsageChunkJson(kHead, {1, 2, 0}),
            Chunk(R"("choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,)"
                  R"("total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}})"));
  EXPECT_EQ(ChatChunkJson(kHead, TextChoice("a"), {true, Usage{1, 2, 0}}),
            Chunk(R"("choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,)"
                  R"("finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":2,)"
                  R"("total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}})"));
}

TEST(ChatChunkJson, GivesTokenLogprobsWithExactBytes) {
  ReplyChoice choice = TextChoice("");
  choice.has_logprobs = true;
  choice.tokens = {{"\xe2\x82", -0.5f, {{"\xe2\x82", -0.5f}, {"b", -1.5f}}, 0}};
  EXPECT_EQ(ChatChunkJson(kHead, choice, {}),
            Chunk("\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":"
                  "{\"content\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,\"bytes\":[226,130],"
                  "\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,"
                  "\"bytes\":[226,130]},{\"token\":\"b\",\"logprob\":-1.5,\"bytes\":[98]}]}],"
                  "\"refusal\":null},\"finish_reason\":null}]}"));
}

TEST(CompletionJson, GivesLogprobsOfAnEchoedPrompt) {
  ReplyChoice choice = TextChoice("ab\xe2\x82\xac", "length");
  choice.has_logprobs = true;
  choice.tokens = {{"a", std::nullopt, {}, 0},
                   {"b", -2.0f, {{"c", -1.0f}, {"d", -1.5f}}, 1},
                   {"\xe2\x82", -1.0f, {{"\xe2\x82", -1.0f}, {"c", -3.0f}, {"c", -4.0f}}, 2},
                   {"\xac", -0.25f, {}, 2}};
  EXPECT_EQ(CompletionJson(kHead, {&choice, 1}, {2, 2, 0}),
            "{\"id\":\"id-1\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":"
            "\"m\",\"choices\":[{\"index\":0,\"text\":\"ab\xe2\x82\xac\",\"logprobs\":{\"tokens\":"
            R"(["a","b","bytes:\\xe2\\x82","bytes:\\xac"],)"
            R"("token_logprobs":[null,-2,-1,-0.25],"top_logprobs":[null,)"
            R"({"c":-1,"d":-1.5,"b":-2},{"bytes:\\xe2\\x82":-1,"c":-3},{"bytes:\\xac":-0.25}],)"
            R"("text_offset":[0,1,2,2]},"finish_reason":"length"}],"usage":{"prompt_tokens":2,)"
            R"("completion_tokens":2,"total_tokens":4,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(CompletionChunkJson, KeepsTheObjectOfWholeAnswers) {
  EXPECT_EQ(CompletionChunkJson(kHead, TextChoice("a"), {true, std::nullopt}),
            R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"m",)"
            R"("choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}],)"
            R"("usage":null})");
  EXPECT_EQ(CompletionUsageChunkJson(kHead, {1, 0, 0}),
            R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"m",)"
            R"("choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ModelListJson, GivesTheContextLength) {
  const ModelEntry models[] = {{"a", 1, 2048}, {"b", 1, 2048}};
  EXPECT_EQ(ModelListJson(models),
            R"({"object":"list","data":[{"id":"a","object":"model","created":1,"owned_by":)"
            R"("remontoir","max_model_len":2048,"meta":{"n_ctx":2048}},{"id":"b","object":)"
            R"("model","created":1,"owned_by":"remontoir","max_model_len":2048,)"
            R"("meta":{"n_ctx":2048}}]})");
  EXPECT_EQ(ModelListJson({}), R"({"object":"list","data":[]})");
}

TEST(ErrorBody, AdvisesARetryWithinWhatClientsHeed) {
  const std::pair<int64_t, int> cases[] = {{0, 300},
                                           {299'000, 300},
                                           {300'000, 300},
                                           {300'001, 301},
                                           {5'000'000, 5000},
                                           {120'000'001, 120'000},
                                           {int64_t{1} << 62, 120'000}};
  for (const auto& [retry_us, retry_ms] : cases) {
    EXPECT_EQ(QueueFull(retry_us).retry_after_ms, retry_ms) << retry_us;
    EXPECT_EQ(DeadlineUnmet(2, 1, retry_us).retry_after_ms, retry_ms) << retry_us;
  }
}

TEST(ErrorBody, NamesThePredictionAndTheDeadline) {
  EXPECT_EQ(
      ToJson(DeadlineUnmet(1'200'001, 500'000, 0)),
      R"({"error":{"message":"The first token is predicted after 1201 ms, later than the 500 )"
      R"(ms that the request allows","type":"rate_limit_error","param":null,)"
      R"("code":"deadline_unmet","ttft_predicted_ms":1201,"ttft_slo_ms":500}})");
  EXPECT_EQ(DeadlineUnmet(1'200'001, 500'000, 0).http_status, 429);
}

TEST(ErrorBody, HasStatusTypeAndCodeOfItsKind) {
  const struct {
    ErrorBody error;
    int status;
    const char* type;
    const char* code;
  } cases[] = {
      {InvalidRequest("x"), 400, "invalid_request_error", ""},
      {InvalidField("n", "is odd"), 400, "invalid_request_error", "invalid_value"},
      {UnsupportedField("n", "is odd"), 400, "invalid_request_error", "unsupported_value"},
      {ContextLengthExceeded("long", "messages"), 400, "invalid_request_error",
       "context_length_exceeded"},
      {InvalidApiKey(), 401, "authentication_error", "invalid_api_key"},
      {ModelNotFound("x"), 404, "invalid_request_error", "model_not_found"},
      {PathNotFound("GET", "/x"), 404, "invalid_request_error", "not_found"},
      {MethodNotAllowed("GET", "/x"), 405, "invalid_request_error", "method_not_allowed"},
      {QueueFull(), 429, "rate_limit_error", "rate_limit_exceeded"},
      {Loading(), 503, "service_unavailable", "model_loading"},
      {ShuttingDown(), 503, "service_unavailable", "shutting_down"},
      {ServerError("x"), 500, "server_error", ""},
      {HttpRefusal(413, "big"), 413, "invalid_request_error", ""},
      {HttpRefusal(503, "many"), 503, "service_unavailable", ""},
  };
  for (const auto& [error, status, type, code] : cases) {
    EXPECT_EQ(error.http_status, status) << error.message;
    EXPECT_EQ(error.type, type) << error.message;
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_EQ(error.retry_after_ms > 0, status == 429 || status == 503) << error.message;
    const auto json = boost::json::parse(ToJson(error)).at("error");
    EXPECT_EQ(json.as_object().size(), 4u);
    EXPECT_EQ(json.at("message").as_string(), error.message);
    EXPECT_EQ(json.at("code").is_null(), error.code.empty());
  }
  EXPECT_EQ(ToJson(InvalidField("n", "is \"odd\"")),
            R"({"error":{"message":"n is \"odd\"","type":"invalid_request_error","param":"n",)"
            R"("code":"invalid_value"}})");
  EXPECT_NE(ContextLengthExceeded("x", "").message.find("token limit exceeded"), std::string::npos);
}

}  // namespace
}  // namespace remontoir
