// The room for keys and values as a client sees it: what it may wish, what replies say, the plan.
#include <gmock/gmock.h>

#include <string>
#include <variant>
#include <vector>

#include "server/chat_handler.h"
#include "server/completion_handler.h"
#include "tests/unit/server/service_fixture.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kCompletions[] = "/v1/completions";
constexpr char kPlan[] = "/v1/engine/plan";

std::string Header(const RawClient::Response& response, const std::string& name) {
  return HeaderOf(response.head, name);
}

struct Asked {
  const char* method;
  const char* path;
  const char* body;
  int status;
};

TEST(Room, IsTheConfiguredStrategyWhereNothingIsGenerated) {
  const Asked kServing[] = {
      {"GET", "/health", "", 200},
      {"GET", "/metrics", "", 200},
      {"GET", "/v1/models", "", 200},
      {"GET", "/v1/models/nobody", "", 404},
      {"GET", kPlan, "", 200},
      {"PUT", kPlan, "", 405},
      {"GET", "/nowhere", "", 404},
      {"POST", "/tokenize", R"({"prompt":"a"})", 200},
      {"POST", kCompletions, "{", 400},
      {"POST", kCompletions, R"({"prompt":"a","max_tokens":9999})", 400},
      {"POST", kCompletions, R"({"prompt":"a","model":"gpt","stream":true})", 404},
      {"BAD METHOD", "/", "", 505},
  };
  const Asked kLoading[] = {
      {"GET", "/health", "", 503}, {"GET", "/metrics", "", 200}, {"GET", kPlan, "", 503}};
  for (const bool dynamic : {false, true}) {
    for (const bool serving : {false, true}) {
      ServiceCase c;
      c.service.dynamic = dynamic;
      c.serve = serving;
      ServiceUnderTest test(c);
      test.Start();
      for (const Asked& asked : serving ? std::span<const Asked>(kServing) : kLoading) {
        SCOPED_TRACE(std::string(asked.method) + " " + asked.path + " " + asked.body);
        const auto response = test.Ask(asked.method, asked.path, asked.body);
        EXPECT_EQ(response.status(), asked.status);
        EXPECT_EQ(Header(response, "X-KV-Cache-Strategy"),
                  dynamic ? "dynamic" : "bucketed_prealloc_v2");
        for (const char* name : {"X-KV-Bucket", "X-KV-Init-Us", "X-Cache"}) {
          EXPECT_EQ(Header(response, name), "-") << name;
        }
      }
    }
  }
}

TEST(Room, OfAnUnknownModeIsRefusedByItsHeader) {
  ServiceUnderTest test;
  test.Start();
  for (const char* body : {R"({"prompt":"y"})", R"({"prompt":"y","stream":true})", "{"}) {
    const auto response = test.Ask("POST", kCompletions, body, "X-KV-Cache-Mode: paged\r\n");
    EXPECT_EQ(response.status(), 400) << body;
    EXPECT_THAT(response.body, HasSubstr(R"("param":"X-KV-Cache-Mode")")) << body;
  }
  EXPECT_EQ(
      test.Ask("POST", kCompletions, R"({"prompt":"y"})", "X-KV-Cache-Mode: Bucketed\r\n").status(),
      200);
}

TEST(Room, IsWishedInHeadersAndFields) {
  ServiceUnderTest test;
  test.Start();
  const Tokenizer tokenizer = MakeTinyTokenizer();
  const auto chat_template = ChatTemplate::Compile(kTinyChatTemplate);
  ASSERT_TRUE(chat_template.ok());
  ServedModel model;
  model.tokenizer = &tokenizer;
  model.chat_template = &*chat_template;
  model.engine = test.engine.get();
  const struct {
    RoomHeaders headers;
    const char* fields;
    RoomWishes room;
  } kCases[] = {
      {{}, "", {.prefix_key = PrefixKeyOf("", "")}},
      {{.dynamic = true}, "", {.dynamic = true, .prefix_key = PrefixKeyOf("", "")}},
      {{.bypasses_cache = true}, "", {.bypasses_cache = true, .prefix_key = PrefixKeyOf("", "")}},
      {{.api_key = "sk-1"}, R"(,"cache_salt":"s","n":2)", {.prefix_key = PrefixKeyOf("sk-1", "s")}},
      {{.api_key = "sk-1"},
       R"(,"max_context_length":9000000,"prompt_cache_key":"k")",
       {.context_hint = 9'000'000, .prefix_key = PrefixKeyOf("sk-1", "")}},
  };
  for (const auto& test_case : kCases) {
    SCOPED_TRACE(test_case.fields);
    const PlanInputs inputs = {.room = test_case.headers};
    const std::string fields = test_case.fields;
    for (const PlanOrError& planned :
         {PlanCompletion(R"({"prompt":["a","b"])" + fields + "}", model, inputs),
          PlanChat(R"({"messages":[{"role":"user","content":"a"}])" + fields + "}", model,
                   inputs)}) {
      const auto* plan = std::get_if<GenerationPlan>(&planned);
      ASSERT_NE(plan, nullptr) << std::get<ErrorBody>(planned).message;
      EXPECT_GE(plan->choices.size(), 1u);
      for (const PlannedChoice& choice : plan->choices) {
        EXPECT_EQ(choice.request.room.dynamic, test_case.room.dynamic);
        EXPECT_EQ(choice.request.room.bypasses_cache, test_case.room.bypasses_cache);
        EXPECT_EQ(choice.request.room.context_hint, test_case.room.context_hint);
        EXPECT_EQ(choice.request.room.prefix_key, test_case.room.prefix_key);
      }
    }
  }
}

// What headers say of one reply: strategy, class, hit.
struct Told {
  const char* strategy;
  const char* bucket;
  const char* cache;
};

void ExpectTold(const RawClient::Response& response, const Told& told) {
  EXPECT_EQ(response.status(), 200) << response.body;
  EXPECT_EQ(Header(response, "X-KV-Cache-Strategy"), told.strategy);
  EXPECT_EQ(Header(response, "X-KV-Bucket"), told.bucket);
  EXPECT_EQ(Header(response, "X-Cache"), told.cache);
  EXPECT_THAT(Header(response, "X-KV-Init-Us"), MatchesRegex("[0-9]+"));
}

// Classes of 128 and 512 tokens. Each case is a server of its own, and its last reply counts.
TEST(Room, IsToldInWholeAndStreamedReplies) {
  const std::string long_prompt(200, 'p');
  const std::string no_cache = "Cache-Control: no-cache\r\n";
  const std::string dynamic = "X-KV-Cache-Mode: dynamic\r\n";
  const char* const kBucketed = "bucketed_prealloc_v2";
  struct Sent {
    std::string prompt;
    std::string fields;
    std::string headers;
  };
  const struct {
    std::vector<Sent> sent;
    Told told;
  } kCases[] = {
      {{{R"("y")", "", ""}}, {kBucketed, "128", "MISS"}},
      {{{R"("y")", R"(,"max_tokens":200)", ""}}, {kBucketed, "512", "MISS"}},
      {{{R"("y")", R"(,"max_tokens":200,"max_context_length":100)", ""}},
       {kBucketed, "128", "MISS"}},
      {{{R"(["y",")" + long_prompt + R"("])", "", ""}}, {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", ""}, {R"("abcd")", "", ""}}, {kBucketed, "128", "HIT"}},
      {{{R"("abcd")", "", ""}, {R"(["abcd","x"])", "", ""}}, {kBucketed, "128", "HIT"}},
      {{{R"("abcd")", "", ""}, {R"("xyz")", "", ""}}, {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", ""}, {R"("abcd")", R"(,"cache_salt":"s")", ""}},
       {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", "Authorization: Bearer a\r\n"},
        {R"("abcd")", "", "Authorization: Bearer b\r\n"}},
       {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", ""}, {R"("abcd")", "", no_cache}}, {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", no_cache}, {R"("abcd")", "", ""}}, {kBucketed, "128", "MISS"}},
      {{{R"("abcd")", "", ""}, {R"("abcd")", "", dynamic}}, {"dynamic", "-", "MISS"}},
  };
  for (const auto& test_case : kCases) {
    for (const bool streams : {false, true}) {
      ServiceCase c;
      c.engine.bucket_tokens = {128, 512};
      ServiceUnderTest test(c);
      test.Start();
      RawClient::Response response;
      std::string shown;
      for (const Sent& sent : test_case.sent) {
        const std::string body =
            R"({"prompt":)" + sent.prompt + sent.fields + (streams ? R"(,"stream":true})" : "}");
        shown += sent.headers + body + "\n";
        response = test.Ask("POST", kCompletions, body, sent.headers);
        ASSERT_TRUE(test.AwaitIdleEngine());
      }
      SCOPED_TRACE(shown);
      ExpectTold(response, test_case.told);
    }
  }
}

TEST(EnginePlanPage, ShowsThePlanToThoseWithAKey) {
  ServiceCase c;
  c.service.api_keys = ApiKeys({"sk-1"});
  ServiceUnderTest test(c);
  test.plan = {.context_max = 8192,
               .sequences_max = 8,
               .round_tokens_max = 512,
               .kv_type = DType::kQ8_0,
               .page_bytes = 1000,
               .mapped_bytes = 7,
               .bucket_tokens = {4096, 8192},
               .bucket_capacity = 32,
               .notes = {"16384 is dropped"},
               .memory = {.weights_bytes = 100,
                          .activation_bytes = 20,
                          .kv_page_count = 3,
                          .kv_bytes = 3000,
                          .dynamic_page_count = 4,
                          .dynamic_bytes = 4000,
                          .segment_count = 2,
                          .sealed_bytes = 600,
                          .total_bytes = 7720,
                          .free_bytes = 9000},
               .kv_memory = {.arena = {.state = MemoryBacking::kPrefaulted,
                                       .bytes = 3072,
                                       .prefaulted_bytes = 3072,
                                       .huge_bytes = 2048},
                             .notes = {"not locked"}}};
  test.Start();
  EXPECT_EQ(test.Ask("GET", kPlan).status(), 401);
  const auto response = test.Ask("GET", kPlan, "", "Authorization: Bearer sk-1\r\n");
  EXPECT_EQ(response.status(), 200);
  EXPECT_EQ(response.body,
            R"({"strategy":"bucketed_prealloc_v2","context_tokens":8192,"sequences_max":8,)"
            R"("round_tokens_max":512,"kv_type":"q8_0","page_tokens":64,"page_bytes":1000,)"
            R"("arena_pages":3,"dynamic_pages_max":4,"weights_bytes":100,"activation_bytes":20,)"
            R"("arena_bytes":3000,"dynamic_bytes_max":4000,"sealed_bytes":600,"total_bytes":7720,)"
            R"("free_bytes":9000,"mapped_bytes":7,"mapped_expert_bytes":0,)"
            R"("buckets":[{"tokens":4096,"capacity":32},{"tokens":8192,"capacity":32}],)"
            R"("notes":["16384 is dropped"],"kv_memory":{"state":"prefaulted","bytes":3072,)"
            R"("locked_bytes":0,"prefaulted_bytes":3072,"plain_bytes":0,"huge_bytes":2048,)"
            R"("notes":["not locked"]}})");
}

TEST(RoomMetrics, SayWhatBecameOfTheMemory) {
  ServiceCase c;
  c.service.dynamic = true;
  ServiceUnderTest test(c);
  test.plan.kv_memory.arena = {.state = MemoryBacking::kPlain,
                               .bytes = 100,
                               .prefaulted_bytes = 70,
                               .locked_bytes = 30,
                               .huge_bytes = 64};
  test.Start();
  const std::string page = test.Ask("GET", "/metrics").body;
  for (const char* sample : {
           "remontoir_kv_strategy_info{strategy=\"dynamic\"} 1\n",
           "remontoir_kv_memory_bytes{state=\"locked\"} 30\n",
           "remontoir_kv_memory_bytes{state=\"prefaulted\"} 40\n",
           "remontoir_kv_memory_bytes{state=\"plain\"} 30\n",
           "remontoir_kv_huge_page_bytes 64\n",
       }) {
    EXPECT_THAT(page, HasSubstr(sample));
  }
}

}  // namespace
}  // namespace remontoir
