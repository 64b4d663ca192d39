// The client against a server of this process, and against ports that behave badly.
#include "loadgen/load_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "http/http_server.h"
#include "http/sse.h"
#include "loadgen/load_report.h"
#include "tests/unit/http/raw_client.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

constexpr char kPiece[] = R"({"choices":[{"delta":{"content":"a"}}]})";
constexpr char kUsage[] = R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}})";

// Answers each request as `answer` says, on the loop thread.
class FakeServer : public HttpHandler {
 public:
  using Answer = std::function<void(HttpServer&, const std::shared_ptr<HttpExchange>&)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)) {
    server_ = HttpServer::Create({}, *this).value();
    thread_ = std::thread([this] { server_->Run(); });
  }
  ~FakeServer() override {
    server_->Stop();
    server_->Stop();
    thread_.join();
  }

  void OnRequest(std::shared_ptr<HttpExchange> exchange) override {
    ++requests_;
    open_max_ = std::max(open_max_.load(), ++open_);
    answer_(*server_, exchange);
  }
  void OnClosed(uint64_t) override {}
  // By answers that end an exchange.
  void Ended() { --open_; }

  LoadClientOptions Options() const {
    LoadClientOptions options;
    options.target = ParseLoadTarget("http://127.0.0.1:" + std::to_string(server_->port())).value();
    options.reply_ms_max = kWaitMs;
    return options;
  }
  int requests() const { return requests_; }
  int open_max() const { return open_max_; }

 private:
  const Answer answer_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<int> requests_ = 0;
  std::atomic<int> open_ = 0;
  std::atomic<int> open_max_ = 0;
};

void StreamWhole(HttpExchange& exchange) {
  exchange.StartStream(200, kSseContentType,
                       {{"X-Batch-Size", "4"}, {"X-TTFT-Predicted-Ms", "12.5"}});
  for (int i = 0; i < 3; ++i) exchange.Write(SseEvent(kPiece));
  exchange.Write(SseEvent(kUsage) + SseEvent("[DONE]"));
  exchange.Finish();
}

LoadPlan AtOnce(size_t count) { return LoadPlan(count, PlannedRequest{0, 5, 3, false}); }

std::vector<LoadRecord> OpenLoad(const LoadClientOptions& options, const LoadPlan& plan) {
  const SystemClock clock;
  return RunOpenLoad(options, plan, clock).value();
}

TEST(LoadClient, WritesDownWhatAWholeAnswerSays) {
  std::string body, path, header;
  FakeServer server([&](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
    body = exchange->request().body;
    path = exchange->request().path;
    header = exchange->request().headers.Find("x-slo-ttft-ms").value_or("");
    StreamWhole(*exchange);
  });
  LoadClientOptions options = server.Options();
  options.headers.Add("x-slo-ttft-ms", "500");
  const std::vector<LoadRecord> records = OpenLoad(options, AtOnce(1));
  ASSERT_EQ(records.size(), 1U);
  const LoadRecord& record = records[0];
  EXPECT_EQ(record.outcome, LoadOutcome::kAnswered) << record.error;
  EXPECT_EQ(record.status, 200);
  EXPECT_EQ(record.pieces_us.size(), 3U);
  EXPECT_EQ(record.prompt_tokens, 9);
  EXPECT_EQ(record.output_tokens, 3);
  EXPECT_EQ(record.batch_size, 4);
  EXPECT_EQ(record.ttft_predicted_ms, 12.5);
  EXPECT_EQ(record.queue_ms, std::nullopt);
  EXPECT_LE(0, record.started_us);
  EXPECT_LE(record.started_us, record.sent_us);
  EXPECT_LE(record.sent_us, record.first_byte_us);
  EXPECT_LE(record.first_byte_us, record.headers_us);
  EXPECT_LE(record.headers_us, record.pieces_us[0]);
  EXPECT_LE(record.pieces_us[2], record.ended_us);
  EXPECT_EQ(path, "/v1/chat/completions");
  EXPECT_EQ(header, "500");
  EXPECT_THAT(body, HasSubstr(R"("max_tokens":3)"));
}

TEST(LoadClient, AStallCountsForEveryoneWhoShouldHaveBeenSentMeanwhile) {
  // The server answers nobody for 300 ms; ten requests fall into that time, and only one connection
  // may be open, so that nine of them can't even be sent.
  FakeServer server([](HttpServer& loop, const std::shared_ptr<HttpExchange>& exchange) {
    loop.After(300, [exchange] { StreamWhole(*exchange); });
  });
  LoadClientOptions options = server.Options();
  options.connections_max = 1;
  LoadPlan plan = AtOnce(3);
  plan[1].time_us = 10'000;
  plan[2].time_us = 20'000;
  const std::vector<LoadRecord> records = OpenLoad(options, plan);
  ASSERT_EQ(records.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].intended_us, plan[i].time_us);
    // One after the other: each waits for those before it.
    const int64_t answers_before = static_cast<int64_t>(i) + 1;
    EXPECT_GE(records[i].pieces_us.at(0) - records[i].intended_us,
              answers_before * 300'000 - plan[i].time_us - 5'000);
  }
  const LoadReport report = ReportOf(records);
  EXPECT_EQ(report.late_sends, 2);
  EXPECT_GE(report.ttft_ms.max, 870);
}

TEST(LoadClient, AnOpenLoopDoesNotWaitForAnswers) {
  std::vector<std::shared_ptr<HttpExchange>> held;
  FakeServer server([&](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
    held.push_back(exchange);
    if (held.size() < 20) return;
    for (const auto& one : held) StreamWhole(*one);
    held.clear();
  });
  for (const LoadRecord& record : OpenLoad(server.Options(), AtOnce(20))) {
    EXPECT_EQ(record.outcome, LoadOutcome::kAnswered) << record.error;
  }
}

TEST(LoadClient, AClosedLoopHasAsManyOpenAsClients) {
  std::vector<std::shared_ptr<HttpExchange>> held;
  FakeServer* self = nullptr;
  FakeServer server([&](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
    held.push_back(exchange);
    if (held.size() < 3) return;
    for (const auto& one : held) {
      self->Ended();
      StreamWhole(*one);
    }
    held.clear();
  });
  self = &server;
  const SystemClock clock;
  const std::vector<LoadRecord> records =
      RunClosedLoad(server.Options(), {.clients = 3}, AtOnce(21), clock).value();
  EXPECT_EQ(records.size(), 21U);
  EXPECT_EQ(server.open_max(), 3);
  for (const LoadRecord& record : records) {
    EXPECT_EQ(record.outcome, LoadOutcome::kAnswered) << record.error;
  }
}

TEST(LoadClient, AClientThatPausesBeyondTheEndStopsNobodyElse) {
  FakeServer server(
      [](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) { StreamWhole(*exchange); });
  // With pauses of 20 ms at the mean, many of 8 clients' first ones end after 10 ms.
  LoadClientOptions options = server.Options();
  options.seed = 3;
  const SystemClock clock;
  const std::vector<LoadRecord> records =
      RunClosedLoad(options, {.clients = 8, .think_s = 0.02, .seconds = 0.01}, AtOnce(1000), clock)
          .value();
  int begun = 0;
  for (int64_t i = 0; i < 8; ++i) begun += ThinkUs(0.02, 3, i) < 10'000 ? 1 : 0;
  ASSERT_GT(begun, 0);
  ASSERT_LT(begun, 8);
  EXPECT_GE(static_cast<int>(records.size()), begun);
}

TEST(LoadClient, AClosedLoopEndsWithItsSeconds) {
  FakeServer server(
      [](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) { StreamWhole(*exchange); });
  const SystemClock clock;
  const std::vector<LoadRecord> records =
      RunClosedLoad(server.Options(), {.clients = 2, .seconds = 0.05}, AtOnce(100'000), clock)
          .value();
  EXPECT_GE(records.size(), 1U);
  EXPECT_EQ(static_cast<int>(records.size()), server.requests());
  for (const LoadRecord& record : records) EXPECT_LT(record.intended_us, 50'000);
}

TEST(LoadClient, TakesRefusalsWithTheirAdvice) {
  FakeServer server([](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
    HttpResponse response;
    response.status = 429;
    response.headers = {{"retry-after-ms", "1500"}, {"X-TTFT-Predicted-Ms", "900"}};
    response.body = R"({"error":{"message":"too long a wait"}})";
    exchange->Respond(std::move(response));
  });
  const LoadRecord record = OpenLoad(server.Options(), AtOnce(1)).at(0);
  EXPECT_EQ(record.outcome, LoadOutcome::kRefused);
  EXPECT_EQ(record.status, 429);
  EXPECT_EQ(record.retry_after_ms, 1500);
  EXPECT_EQ(record.ttft_predicted_ms, 900);
  EXPECT_EQ(record.error, "too long a wait");
  EXPECT_GE(record.first_byte_us, record.sent_us);
}

TEST(LoadClient, NamesEveryOtherEnd) {
  const struct {
    const char* what;
    std::function<void(HttpExchange&)> answer;
    LoadOutcome outcome;
    const char* error;
  } kCases[] = {
      {"a bad request",
       [](HttpExchange& exchange) {
         HttpResponse response;
         response.status = 400;
         response.body = R"({"error":{"message":"no such model"}})";
         exchange.Respond(std::move(response));
       },
       LoadOutcome::kFailed, "no such model"},
      {"no stream", [](HttpExchange& exchange) { exchange.Respond({}); }, LoadOutcome::kFailed,
       "no event stream"},
      {"an error within the stream",
       [](HttpExchange& exchange) {
         exchange.StartStream(200, kSseContentType, {});
         exchange.Write(SseEvent(kPiece) + SseEvent(R"({"error":{"message":"out of room"}})"));
         exchange.Finish();
       },
       LoadOutcome::kFailed, "out of room"},
      {"an end before its time",
       [](HttpExchange& exchange) {
         exchange.StartStream(200, kSseContentType, {});
         exchange.Write(SseEvent(kPiece));
         exchange.Finish();
       },
       LoadOutcome::kCutShort, "[DONE]"},
      {"no text",
       [](HttpExchange& exchange) {
         exchange.StartStream(200, kSseContentType, {});
         exchange.Write(SseEvent("[DONE]"));
         exchange.Finish();
       },
       LoadOutcome::kFailed, "without text"},
      {"no JSON",
       [](HttpExchange& exchange) {
         exchange.StartStream(200, kSseContentType, {});
         exchange.Write(SseEvent("{{{"));
         exchange.Finish();
       },
       LoadOutcome::kFailed, "JSON"},
  };
  for (const auto& expected : kCases) {
    FakeServer server([&](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
      expected.answer(*exchange);
    });
    const LoadRecord record = OpenLoad(server.Options(), AtOnce(1)).at(0);
    EXPECT_EQ(record.outcome, expected.outcome) << expected.what;
    EXPECT_THAT(record.error, HasSubstr(expected.error)) << expected.what;
    EXPECT_GE(record.ended_us, record.sent_us) << expected.what;
  }
}

TEST(LoadClient, ReadsAReplyWhoseHeadComesSlowly) {
  FakeServer server([](HttpServer& loop, const std::shared_ptr<HttpExchange>& exchange) {
    loop.After(100, [exchange] { StreamWhole(*exchange); });
  });
  const LoadRecord record = OpenLoad(server.Options(), AtOnce(1)).at(0);
  EXPECT_EQ(record.outcome, LoadOutcome::kAnswered) << record.error;
  EXPECT_GE(record.first_byte_us - record.started_us, 99'000);
}

TEST(LoadClient, GivesUpAfterItsBound) {
  std::vector<std::shared_ptr<HttpExchange>> held;
  FakeServer server([&](HttpServer&, const std::shared_ptr<HttpExchange>& exchange) {
    held.push_back(exchange);
  });
  LoadClientOptions options = server.Options();
  options.reply_ms_max = 50;
  const LoadRecord record = OpenLoad(options, AtOnce(1)).at(0);
  EXPECT_EQ(record.outcome, LoadOutcome::kTimedOut);
  EXPECT_GE(record.ended_us, 50'000);
  EXPECT_LT(record.ended_us, kWaitMs * 1000);
}

// A port that accepts connections, sends `bytes` once something came, and closes.
class RudePort {
 public:
  explicit RudePort(std::string bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, sent = std::move(bytes)] {
      const int client = accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      char buffer[4096];
      if (recv(client, buffer, sizeof buffer, 0) > 0) {
        EXPECT_EQ(send(client, sent.data(), sent.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(sent.size()));
      }
      ::shutdown(client, SHUT_WR);
      while (recv(client, buffer, sizeof buffer, 0) > 0) {
      }
      ::close(client);
    });
  }
  ~RudePort() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_;
  int port_ = 0;
  std::thread thread_;
};

TEST(LoadClient, NamesConnectionsThatEndEarly) {
  const struct {
    const char* bytes;
    LoadOutcome outcome;
  } kCases[] = {
      {"", LoadOutcome::kUnreachable},
      {"HTTP/1.1 200 O", LoadOutcome::kUnreachable},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
       "5\r\ndata:",
       LoadOutcome::kCutShort},
      {"SSH-2.0-OpenSSH\r\n\r\n", LoadOutcome::kFailed},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
       "zz\r\n",
       LoadOutcome::kCutShort},
  };
  for (const auto& [bytes, outcome] : kCases) {
    RudePort port(bytes);
    LoadClientOptions options;
    options.target = ParseLoadTarget(port.url()).value();
    options.reply_ms_max = kWaitMs;
    const LoadRecord record = OpenLoad(options, AtOnce(1)).at(0);
    EXPECT_EQ(record.outcome, outcome) << bytes;
    EXPECT_FALSE(record.error.empty()) << bytes;
  }
}

TEST(LoadClient, ABodyUpToTheConnectionsEndIsWhole) {
  RudePort port("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + SseEvent(kPiece) +
                SseEvent("[DONE]"));
  LoadClientOptions options;
  options.target = ParseLoadTarget(port.url()).value();
  const LoadRecord record = OpenLoad(options, AtOnce(1)).at(0);
  EXPECT_EQ(record.outcome, LoadOutcome::kAnswered) << record.error;
}

TEST(LoadClient, APortWhereNobodyListensIsUnreachable) {
  int port = 0;
  {
    FakeServer server([](HttpServer&, const std::shared_ptr<HttpExchange>&) {});
    port = std::stoi(server.Options().target.port);
  }
  LoadClientOptions options;
  options.target = ParseLoadTarget("http://127.0.0.1:" + std::to_string(port)).value();
  const std::vector<LoadRecord> records = OpenLoad(options, AtOnce(2));
  for (const LoadRecord& record : records) {
    EXPECT_EQ(record.outcome, LoadOutcome::kUnreachable);
    EXPECT_FALSE(record.error.empty());
  }
}

}  // namespace
}  // namespace remontoir
