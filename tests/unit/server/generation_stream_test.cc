// The writing side of a generation, against an exchange that only remembers.
#include "server/generation_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "tests/unit/server/alphabet_runner.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

class RememberingExchange : public HttpExchange {
 public:
  uint64_t id() const override { return 1; }
  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override {
    status = response.status;
    written = std::move(response.body);
    finished = true;
  }
  void StartStream(int stream_status, std::string_view, HttpHeaders stream_headers) override {
    status = stream_status;
    headers = std::move(stream_headers);
  }
  void Write(std::string_view bytes) override { written += bytes; }
  void Finish() override { finished = true; }
  size_t pending_bytes() const override { return pending; }
  bool closed() const override { return finished; }

  int status = 0;
  HttpHeaders headers;  // of a stream
  std::string written;
  bool finished = false;
  size_t pending = 0;

 private:
  HttpRequest request_;
};

constexpr TimePoint kBegan = {1'000'000};
constexpr TimePoint kNow = {1'250'000};

class PlainWriter : public ReplyWriter {
 public:
  void StartStream(HttpExchange& exchange, HttpHeaders headers) override {
    exchange.StartStream(200, "text/event-stream", std::move(headers));
  }
  void ReplyError(HttpExchange& exchange, const ErrorBody& error) override {
    HttpResponse response;
    response.status = error.http_status;
    response.body = ToJson(error);
    exchange.Respond(std::move(response));
  }
  void ReplyWhole(std::shared_ptr<HttpExchange> exchange, HttpHeaders, bool,
                  std::function<std::string()> write) override {
    HttpResponse response;
    response.body = write();
    exchange->Respond(std::move(response));
  }
  void LogFinished(const HttpExchange&, std::string fields) override {
    logged.push_back(std::move(fields));
  }

  std::vector<std::string> logged;
};

class GenerationStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const EngineOptions options = {
        .sequences_max = 2, .queue_max = 2, .round_tokens_max = 64, .reserve_tokens_default = 128};
    auto created = Engine::Create(runner_, clock_, options, /*kv_page_count=*/32);
    ASSERT_TRUE(created.ok()) << created.status().message();
    engine_ = std::move(created).value();
  }

  static GenerationPlan Plan(int32_t max_tokens, bool stream, int choices = 1) {
    GenerationPlan plan;
    plan.format = ReplyFormat::kCompletion;
    plan.head = {"cmpl-1", 0, "alphabet"};
    plan.stream = stream;
    for (int i = 0; i < choices; ++i) {
      PlannedChoice& choice = plan.choices.emplace_back();
      choice.request.prompt = {TinyToken('a')};
      choice.request.max_tokens = max_tokens;
      choice.request.sampling.temperature = 0;
      choice.request.ignore_eos = true;
      choice.options.index = i;
    }
    return plan;
  }

  std::optional<ErrorBody> Start(GenerationPlan plan) {
    stream_ = std::make_unique<GenerationStream>(std::move(plan), tokenizer_, events_);
    return stream_->Start(*engine_, exchange_, writer_, GenerationMeter(metrics_, kBegan));
  }

  // 500 tokens take ten seconds then, so that what follows comes before their end.
  void SlowDown() {
    runner_.on_run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  }

  // Pumps whenever the engine calls, until the condition holds.
  template <class Condition>
  void PumpUntil(Condition condition) {
    while (stream_->Pump(kNow) == GenerationStream::State::kWaiting && !condition()) {
      if (!events_.Wait(10'000)) break;
    }
  }
  // Pumps to the end, and returns how often there was more than a pump takes.
  int PumpToTheEnd() {
    int more = 0;
    for (;;) {
      const GenerationStream::State state = stream_->Pump(kNow);
      if (state == GenerationStream::State::kMore) ++more;
      if (state == GenerationStream::State::kWaiting && events_.Wait(10'000)) continue;
      if (state != GenerationStream::State::kMore) return more;
    }
  }

  const Tokenizer tokenizer_ = MakeTinyTokenizer();
  SystemClock clock_;
  Notifier events_;  // outlives the engine
  AlphabetRunner runner_{
      {.rows_max = 128, .sequences_max = 2, .logit_rows_max = 128, .context_max = 512}};
  std::unique_ptr<Engine> engine_;
  PlainWriter writer_;
  ServerMetrics metrics_;
  std::shared_ptr<RememberingExchange> exchange_ = std::make_shared<RememberingExchange>();
  std::unique_ptr<GenerationStream> stream_;
};

TEST_F(GenerationStreamTest, TakesABoundedNumberOfEventsAPump) {
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/400, /*stream=*/true)).has_value());
  while (engine_->stats().requests_finished == 0) events_.Wait(10);
  EXPECT_EQ(stream_->Pump(kNow), GenerationStream::State::kMore);
  EXPECT_FALSE(exchange_->finished);
  // A request counts as finished a moment before its last event is there.
  EXPECT_EQ(1 + PumpToTheEnd(), 400 / 128);
  EXPECT_TRUE(exchange_->finished);
  EXPECT_THAT(exchange_->written, HasSubstr("data: [DONE]\n\n"));
}

TEST_F(GenerationStreamTest, PausesForASlowReader) {
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/50, /*stream=*/true)).has_value());
  while (engine_->stats().requests_finished == 0) events_.Wait(10);
  exchange_->pending = 1 << 20;
  EXPECT_EQ(stream_->Pump(kNow), GenerationStream::State::kPaused);
  EXPECT_EQ(exchange_->written, "");
  exchange_->pending = 0;
  EXPECT_EQ(PumpToTheEnd(), 0);
  EXPECT_TRUE(exchange_->finished);
}

TEST_F(GenerationStreamTest, TellsAStreamThatTheEngineStopped) {
  SlowDown();
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/500, /*stream=*/true)).has_value());
  PumpUntil([&] { return !exchange_->written.empty(); });
  engine_.reset();
  while (stream_->Pump(kNow) == GenerationStream::State::kMore) {
  }
  EXPECT_TRUE(exchange_->finished);
  EXPECT_EQ(exchange_->status, 200);
  EXPECT_THAT(exchange_->written, HasSubstr("data: {\"error\":{\"message\":"));
  EXPECT_EQ(exchange_->written.find("[DONE]"), std::string::npos);
}

TEST_F(GenerationStreamTest, Answers503WhenTheEngineStoppedBeforeAWholeAnswer) {
  SlowDown();
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/500, /*stream=*/false, /*choices=*/2)).has_value());
  engine_.reset();
  while (stream_->Pump(kNow) == GenerationStream::State::kMore) {
  }
  EXPECT_TRUE(exchange_->finished);
  EXPECT_EQ(exchange_->status, 503);
}

TEST_F(GenerationStreamTest, SubmitsAllChoicesOrNone) {
  const auto error = Start(Plan(/*max_tokens=*/400, /*stream=*/false, /*choices=*/60));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->http_status, 429);
  stream_.reset();
  for (int i = 0; i < 1000 && engine_->stats().running + engine_->stats().waiting > 0; ++i) {
    events_.Wait(10);
  }
  EXPECT_EQ(engine_->stats().kv_pages_unheld(), engine_->stats().kv.pages_total);
}

TEST_F(GenerationStreamTest, SendsHeadersOnceItsRoundIsKnownAndBeforeAnyEvent) {
  std::promise<void> go;
  runner_.on_run = [released = go.get_future().share()] { released.wait(); };
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/3, /*stream=*/true)).has_value());
  PumpUntil([&] { return exchange_->status != 0; });
  // The round stands, so there is no token yet.
  EXPECT_EQ(exchange_->status, 200);
  EXPECT_EQ(exchange_->written, "");
  EXPECT_EQ(exchange_->headers.Find("X-Batch-Size"), "1");
  EXPECT_EQ(exchange_->headers.Find("X-Batch-Policy"), "immediate");
  EXPECT_TRUE(exchange_->headers.Find("X-KV-Bucket").has_value());
  go.set_value();
  PumpToTheEnd();
  EXPECT_TRUE(exchange_->finished);
}

TEST_F(GenerationStreamTest, SendsHeadersWithoutItsRoundWhenTheyAreReleased) {
  std::promise<void> go;
  runner_.on_run = [released = go.get_future().share()] { released.wait(); };
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/3, /*stream=*/true)).has_value());
  GenerationPlan second = Plan(/*max_tokens=*/3, /*stream=*/true);
  second.choices[0].request.room.dynamic = true;
  GenerationStream waiting(std::move(second), tokenizer_, events_);
  const auto exchange = std::make_shared<RememberingExchange>();
  ASSERT_FALSE(waiting.Start(*engine_, exchange, writer_, GenerationMeter(metrics_, kBegan)));
  waiting.ReleaseHeaders();
  EXPECT_EQ(exchange->status, 200);
  EXPECT_EQ(exchange->headers.Find("X-Batch-Policy"), "immediate");
  EXPECT_EQ(exchange->headers.Find("X-KV-Cache-Strategy"), "dynamic");
  for (const char* name : {"X-Batch-Size", "X-Batch-Window-Ms", "X-Queue-Ms", "X-KV-Init-Us"}) {
    EXPECT_FALSE(exchange->headers.Find(name).has_value()) << name;
  }
  const size_t sent = exchange->headers.size();
  waiting.ReleaseHeaders();
  EXPECT_EQ(exchange->headers.size(), sent);
  go.set_value();
  PumpToTheEnd();
}

TEST_F(GenerationStreamTest, SendsTheHeadersOfItsRoomWhenItsPromptTakesMoreRounds) {
  std::promise<void> begun;
  std::promise<void> go;
  runner_.on_run = [&begun, first = true, released = go.get_future().share()]() mutable {
    if (std::exchange(first, false)) begun.set_value();
    released.wait();
  };
  GenerationPlan plan = Plan(/*max_tokens=*/3, /*stream=*/true);
  plan.choices[0].request.prompt.assign(100, TinyToken('a'));
  ASSERT_FALSE(Start(std::move(plan)).has_value());
  begun.get_future().wait();
  stream_->ReleaseHeaders();
  EXPECT_EQ(exchange_->headers.Find("X-Flash-Attn-Mode"), "exact");
  EXPECT_EQ(exchange_->headers.Find("X-Cache"), "MISS");
  EXPECT_TRUE(exchange_->headers.Find("X-KV-Bucket").has_value());
  EXPECT_FALSE(exchange_->headers.Find("X-Batch-Size").has_value());
  go.set_value();
  PumpToTheEnd();
}

TEST_F(GenerationStreamTest, LogsAFinishedRequestOnceWithItsTimings) {
  ASSERT_FALSE(Start(Plan(/*max_tokens=*/3, /*stream=*/false)).has_value());
  PumpToTheEnd();
  ASSERT_EQ(writer_.logged.size(), 1u);
  EXPECT_THAT(writer_.logged[0], HasSubstr("\"completion_tokens\":3,\"total_ms\":250.000,"));
  EXPECT_THAT(writer_.logged[0], HasSubstr("\"ttft_ms\":250.000,"));
  EXPECT_THAT(writer_.logged[0], HasSubstr("\"batch_size\":1,"));
  // Those that the client asks for are the same, in the reply.
  EXPECT_THAT(exchange_->written, ::testing::Not(HasSubstr("remontoir")));
}

TEST_F(GenerationStreamTest, TakesTheTimeOfTheTextFromTheDeadline) {
  GenerationPlan plan = Plan(/*max_tokens=*/3, /*stream=*/false);
  plan.choices[0].request.first_token_us_max = 40'000'000;
  plan.text_us = 60'000'000;
  const auto error = Start(std::move(plan));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->http_status, 429);
  EXPECT_EQ(error->code, "deadline_unmet");
  EXPECT_GE(error->ttft_predicted_ms, 60'000);
  EXPECT_EQ(error->ttft_slo_ms, 40'000);
  EXPECT_GE(error->retry_after_ms, kRetryMsMin);
}

}  // namespace
}  // namespace remontoir
