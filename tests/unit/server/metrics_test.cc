// What /metrics says after requests of every kind, and that its page in docs/ lists every metric.
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "backend/expert_load.h"
#include "base/thread_counters.h"
#include "engine/engine_metrics.h"
#include "metrics/exposition.h"
#include "server/process_metrics.h"
#include "server/room_metrics.h"
#include "server/server_metrics.h"
#include "tests/unit/server/service_fixture.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCompletions[] = "/v1/completions";

// Values by the name and labels in front of them.
using Page = std::map<std::string, double>;

Page ParsePage(const std::string& text) {
  Page page;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.rfind(' ');
    page[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
  }
  return page;
}

Page Scrape(ServiceUnderTest& test) { return ParsePage(test.Ask("GET", "/metrics").body); }

std::string Requests(const std::string& endpoint, const std::string& status) {
  return "remontoir_http_requests_total{endpoint=\"" + endpoint + "\",status=\"" + status + "\"}";
}

struct Asked {
  const char* method;
  const char* path;
  const char* body;
  std::string sample;
};

TEST(MetricsEndpoint, CountsEveryRequestOnceByEndpointAndStatus) {
  ServiceCase c;
  c.service.http.body_bytes_max = 1000;
  ServiceUnderTest test(c);
  test.Start();
  const std::string too_long(2000, ' ');
  const Asked asked[] = {
      {"GET", "/health", "", Requests("/health", "2xx")},
      {"GET", "/v1/models", "", Requests("/v1/models", "2xx")},
      {"GET", "/v1/models/abc", "", Requests("/v1/models", "2xx")},
      {"GET", "/v1/models/xyz", "", Requests("/v1/models", "4xx")},
      {"GET", "/get_model_info", "", Requests("/model_info", "2xx")},
      {"PUT", "/server_info", "", Requests("/server_info", "4xx")},
      {"GET", "/nowhere", "", Requests("other", "4xx")},
      {"POST", "/tokenize", R"({"prompt":"a"})", Requests("/tokenize", "2xx")},
      {"POST", "/tokenize", "{", Requests("/tokenize", "4xx")},
      {"POST", kCompletions, R"({"prompt":"a","max_tokens":2})", Requests(kCompletions, "2xx")},
      {"POST", kCompletions, R"({"prompt":"a","max_tokens":2,"stream":true})",
       Requests(kCompletions, "2xx")},
      {"POST", kCompletions, R"({"prompt":"a","model":"gpt"})", Requests(kCompletions, "4xx")},
      {"POST", kCompletions, too_long.c_str(), Requests("other", "4xx")},
  };
  Page expected = Scrape(test);
  for (const Asked& one : asked) {
    test.Ask(one.method, one.path, one.body);
    const Page page = Scrape(test);
    expected[one.sample] += 1;
    expected[Requests("/metrics", "2xx")] += 1;
    for (const auto& [sample, value] : expected) {
      if (!sample.starts_with("remontoir_http_requests_total")) continue;
      EXPECT_EQ(page.at(sample), value) << sample << " after " << one.path << " " << one.body;
    }
  }
}

TEST(MetricsEndpoint, CountsATokenAsUsageDoes) {
  ServiceUnderTest test;
  test.Start();
  // The letters after "vw" are x, y, z and the end; two choices each of two prompts.
  const char* const bodies[] = {
      R"({"prompt":"vw","temperature":0})",
      R"({"prompt":"vw","temperature":0,"stream":true})",
      R"({"prompt":["a","bc"],"n":2,"max_tokens":5,"temperature":0})",
      R"({"prompt":"abc","max_tokens":0,"echo":true,"logprobs":1})",
  };
  for (const char* body : bodies) {
    EXPECT_EQ(test.Ask("POST", kCompletions, body).status(), 200) << body;
  }
  ASSERT_TRUE(test.AwaitIdleEngine());
  const Page page = Scrape(test);
  const std::pair<const char*, double> facts[] = {
      {"remontoir_prompt_tokens_total", 2 + 2 + 3 + 3},
      {"remontoir_completion_tokens_total", 4 + 4 + 4 * 5},
      {"remontoir_time_to_first_token_seconds_count", 3},
      {"remontoir_inter_token_latency_seconds_count", 3 + 3 + 4 * 4},
      {"remontoir_request_seconds_count", 4},
      {"remontoir_request_prompt_tokens_sum", 2 + 2 + 3 + 3},
      {"remontoir_request_completion_tokens_bucket{le=\"4\"}", 3},
      {"remontoir_request_completion_tokens_sum", 28},
      {"remontoir_generated_tokens_total", 28},
      {"remontoir_queue_seconds_count", 7},
      {"remontoir_prefill_seconds_count", 7},
      {"remontoir_decode_seconds_count", 6},
      {"remontoir_inference_seconds_count", 7},
      {"remontoir_sequences_finished_total{finished_reason=\"stop\"}", 2},
      {"remontoir_sequences_finished_total{finished_reason=\"length\"}", 5},
      {"remontoir_sequences_finished_total{finished_reason=\"abort\"}", 0},
      {"remontoir_sequences_running", 0},
      {"remontoir_sequences_waiting", 0},
      {"remontoir_kv_pages", 64},
      {"remontoir_kv_pages_free", 61},  // the tails of vw, a and bc stay in the cache
      {"remontoir_kv_pages_cached", 3},
      {"remontoir_kv_usage_ratio", 0},
      {"remontoir_ready", 1},
      {"remontoir_http_requests_in_flight", 1},  // this one
      {"remontoir_build_info{version=\"1.2.3\"}", 1},
      {"vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"64\"}", 1},
      {"vllm:prompt_tokens_total{model_name=\"alphabet\"}", 10},
      {"vllm:generation_tokens_total{model_name=\"alphabet\"}", 28},
      {"vllm:request_success_total{model_name=\"alphabet\",finished_reason=\"length\"}", 5},
      {"vllm:time_to_first_token_seconds_bucket{model_name=\"alphabet\",le=\"+Inf\"}", 3},
  };
  for (const auto& [sample, value] : facts) {
    ASSERT_TRUE(page.contains(sample)) << sample;
    EXPECT_EQ(page.at(sample), value) << sample;
  }
  EXPECT_GT(page.at("remontoir_rounds_total"), 0);
  EXPECT_GT(page.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(page.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(page.at("remontoir_page_faults_total{kind=\"minor\"}"), 0);
}

TEST(MetricsEndpoint, ShowsWhatRunsAndWhatWasLeft) {
  ServiceUnderTest test;
  test.runner.on_run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  test.Start();
  const std::string left = Requests(kCompletions, "none");
  const std::string abort = "remontoir_sequences_finished_total{finished_reason=\"abort\"}";
  {
    RawClient client(test.service->port());
    client.Send(test.RequestText("POST", kCompletions,
                                 R"({"prompt":"a","max_tokens":400,"ignore_eos":true})"));
    EXPECT_TRUE(Await([&] { return Scrape(test).at("remontoir_sequences_running") == 1; }));
    const Page page = Scrape(test);
    EXPECT_EQ(page.at("remontoir_http_requests_in_flight"), 2);
    EXPECT_GT(page.at("remontoir_kv_usage_ratio"), 0);
    EXPECT_EQ(page.at("vllm:num_requests_running{model_name=\"alphabet\"}"), 1);
    EXPECT_EQ(page.at(left), 0);
  }
  EXPECT_TRUE(Await([&] { return Scrape(test).at(left) == 1; }));
  EXPECT_TRUE(Await([&] { return Scrape(test).at(abort) == 1; }));
  const Page page = Scrape(test);
  EXPECT_EQ(page.at("remontoir_request_seconds_count"), 0);
  EXPECT_EQ(page.at("remontoir_inference_seconds_count"), 0);
}

TEST(MetricsEndpoint, NeedsNoKeyAndNoModel) {
  ServiceCase c;
  c.service.api_keys = ApiKeys({"sk-1"});
  c.serve = false;
  ServiceUnderTest test(c);
  test.Start();
  const auto response = test.Ask("GET", "/metrics");
  EXPECT_EQ(response.status(), 200);
  EXPECT_TRUE(response.Has("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(response.body, HasSubstr("\nremontoir_ready 0\n"));
  EXPECT_THAT(response.body, Not(HasSubstr("remontoir_rounds_total")));
  EXPECT_EQ(test.Ask("POST", "/metrics").status(), 405);
  EXPECT_EQ(test.Ask("POST", kCompletions, "{}").status(), 401);
  EXPECT_EQ(Scrape(test).at(Requests(kCompletions, "4xx")), 1);
}

TEST(GenerationMeter, MeasuresBetweenTheTimesItIsGiven) {
  ServerMetrics metrics;
  GenerationMeter meter(metrics, TimePoint{1000});
  meter.Begin(7, /*ttft_predicted_us=*/400);
  std::optional<TimePoint> first;
  std::optional<TimePoint> second;
  meter.Token(first, TimePoint{1500});
  meter.Token(second, TimePoint{1700});
  meter.Token(first, TimePoint{2000});
  meter.End(3, TimePoint{2600});
  EXPECT_EQ(metrics.first_token.sum(), 500);
  EXPECT_EQ(metrics.first_token.count(), 1);
  EXPECT_EQ(meter.ttft_us(), 500);
  EXPECT_EQ(metrics.prediction_ratio.count(), 1);
  EXPECT_EQ(metrics.prediction_ratio.sum(), 1250);
  EXPECT_EQ(metrics.token_gap.sum(), 500);
  EXPECT_EQ(metrics.token_gap.count(), 1);
  EXPECT_EQ(metrics.request.sum(), 1600);
  EXPECT_EQ(metrics.prompt_tokens.value(), 7);
  EXPECT_EQ(metrics.completion_tokens.value(), 3);
}

// "| `NAME` | TYPE | LABELS | ALIAS | HELP |" as docs/metrics.md has it.
std::string RowOf(const MetricFamily& family) {
  const char* const kinds[] = {"counter", "gauge", "histogram"};
  std::string labels;
  for (const MetricLabel& label : family.samples.front().labels) {
    labels += (labels.empty() ? "`" : ", `") + label.name + "`";
  }
  const std::string alias =
      family.text.alias.empty() ? "" : "`" + std::string(family.text.alias) + "`";
  return "| `" + std::string(family.text.name) + "` | " + kinds[static_cast<int>(family.kind)] +
         " | " + labels + " | " + alias + " | " + std::string(family.text.help) + " |";
}

TEST(MetricsPage, ListsEveryMetricAndNoOther) {
  if (!HeapAllocationsOfProcess().has_value()) GTEST_SKIP() << "a sanitizer leaves one out";
  const ServerMetrics server;
  const EngineMetrics engine(/*kv_page_count=*/1);
  const RoomMetrics room((EnginePlan()));
  const ProcessMetrics process("1.2.3", /*started=*/0);
  std::vector<std::string> rows;
  const ExpertLoad experts(std::array{0, 1}, 8);
  for (const MetricSet* set :
       std::array<const MetricSet*, 5>{&server, &engine, &room, &experts, &process}) {
    for (const MetricFamily& family : set->families()) rows.push_back(RowOf(family));
  }
  std::ifstream file(REMONTOIR_SOURCE_DIR "/docs/metrics.md");
  std::vector<std::string> listed;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) listed.push_back(line);
  }
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(rows));
}

}  // namespace
}  // namespace remontoir
