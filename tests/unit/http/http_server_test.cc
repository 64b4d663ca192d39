// The server as a bare socket sees it.
#include "http/http_server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <vector>

#include "base/notifier.h"
#include "http/sse.h"
#include "tests/unit/http/raw_client.h"

namespace remontoir {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGetEcho = "GET /echo?a=1 HTTP/1.1\r\nHost: t\r\n\r\n";

std::string Get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  ServerOnThread server;
  RawClient client(server.port());
  for (int i = 0; i < 20; ++i) {
    const std::string body = "body " + std::to_string(i);
    client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
    const auto response = client.ReadResponse();
    EXPECT_EQ(response.status(), 200);
    EXPECT_TRUE(response.Has("Connection: keep-alive"));
    EXPECT_TRUE(response.Has("Date: "));
    EXPECT_EQ(response.body, "POST /echo? " + body);
  }
}

TEST(HttpServer, KnowsTheAddressOfItsPeer) {
  ServerOnThread server;
  RawClient client(server.port());
  client.Send(kGetEcho);
  EXPECT_TRUE(client.ReadResponse().Has("\r\nX-Peer: 127.0.0.1\r\n"));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  ServerOnThread server;
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) requests += Get("/echo?" + std::to_string(i));
  client.Send(requests);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ReadResponse().body, "GET /echo?" + std::to_string(i) + " ");
  }
}

TEST(HttpServer, ReadsARequestThatComesByteByByte) {
  ServerOnThread server;
  RawClient client(server.port());
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n"
                                  "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
    client.Send({&c, 1});
  }
  EXPECT_EQ(client.ReadResponse().body, "POST /echo? abcde");
}

TEST(HttpServer, StreamsInChunksAndKeepsTheConnection) {
  ServerOnThread server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.Send(Get("/stream"));
    const auto response = client.ReadResponse();
    EXPECT_TRUE(response.Has("Transfer-Encoding: chunked"));
    EXPECT_TRUE(response.Has("X-Piece: yes"));
    EXPECT_EQ(response.body, "0;1;2;3;4;5;6;7;8;9;");
  }
}

TEST(HttpServer, EndsAnHttp10StreamByClosing) {
  ServerOnThread server;
  for (const std::string extra : {"", "Connection: keep-alive\r\n"}) {
    RawClient client(server.port());
    client.Send("GET /stream HTTP/1.0\r\n" + extra + "\r\n");
    const std::string answer = client.ReadToEnd();
    EXPECT_TRUE(client.ended());
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_EQ(answer.find("chunked"), std::string::npos);
    EXPECT_TRUE(answer.ends_with("\r\n\r\n0;1;2;3;4;5;6;7;8;9;")) << answer;
  }
}

TEST(HttpServer, KeepsAnHttp10ConnectionOnlyWhenAsked) {
  ServerOnThread server;
  RawClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.Send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_TRUE(kept.ReadResponse().Has("Connection: keep-alive"));
  }
  RawClient closed(server.port());
  closed.Send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closed.ReadResponse().status(), 200);
  closed.ReadToEnd();
  EXPECT_TRUE(closed.ended());
}

TEST(HttpServer, ClosesAfterTheAnswerWhenTheClientAsks) {
  ServerOnThread server;
  RawClient client(server.port());
  client.Send("GET /echo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.ReadResponse().Has("Connection: close"));
  client.ReadToEnd();
  EXPECT_TRUE(client.ended());
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  ServerOnThread server;
  RawClient client(server.port());
  client.Send("HEAD /echo HTTP/1.1\r\nHost: t\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n");
  const std::string plain = client.ReadThrough("\r\n\r\n");
  EXPECT_THAT(plain, HasSubstr("Content-Length: 12\r\n"));
  const std::string streamed = client.ReadThrough("\r\n\r\n");
  EXPECT_TRUE(streamed.starts_with("HTTP/1.1 200 OK\r\n")) << streamed;
  client.Send(kGetEcho);
  EXPECT_TRUE(client.ReadThrough("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, InvitesABodyThatTheClientHoldsBack) {
  ServerOnThread server;
  RawClient client(server.port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.ReadThrough("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_EQ(client.ReadResponse().body, "POST /echo? abc");
}

TEST(HttpServer, ReadsBodiesOfManyReads) {
  ServerOnThread server;
  RawClient client(server.port());
  const std::string body(3 << 20, 'x');
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  EXPECT_EQ(client.ReadResponse().body, "POST /echo? " + body);
}

TEST(HttpServer, SendsTheRestToAClientThatHasEndedItsSide) {
  ServerOnThread server;
  RawClient client(server.port());
  const std::string body(12 << 20, 'x');  // more than the system's buffers hold
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const std::string head = client.ReadThrough("\r\n\r\n");
  client.EndSending();
  EXPECT_EQ(client.ReadToEnd().size(), body.size() + std::string("POST /echo? ").size());
}

struct Refused {
  const char* name;
  std::string request;
  int status;
};

class HttpServerRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(HttpServerRefuses, AnswersAndCloses) {
  HttpServerOptions options;
  options.header_bytes_max = 1024;
  options.body_bytes_max = 1000;
  ServerOnThread server(options);
  RawClient client(server.port());
  client.Send(GetParam().request);
  const auto response = client.ReadResponse();
  EXPECT_EQ(response.status(), GetParam().status) << response.head;
  EXPECT_TRUE(response.Has("Connection: close"));
  client.EndSending();
  client.ReadToEnd();
  EXPECT_TRUE(client.ended());
}

INSTANTIATE_TEST_SUITE_P(
    Table, HttpServerRefuses,
    ::testing::Values(
        Refused{"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        Refused{"LongHeader", "GET / HTTP/1.1\r\nHost: t\r\nX: " + std::string(2000, 'a'), 431},
        Refused{"LongTarget", "GET /" + std::string(2000, 'a'), 431},
        Refused{"ClaimedBody", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n",
                413},
        Refused{"SentBody",
                "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n" +
                    std::string(300000, 'b'),
                413},
        Refused{"ChunkedBody",
                "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                    std::string(2000, 'b') + "\r\n0\r\n\r\n",
                413},
        Refused{"Garbage", "\x16\x03\x01\x02 hello\r\n\r\n", 400},
        Refused{"TwoLengths",
                "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                400},
        Refused{"LengthAndChunks",
                "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: "
                "chunked\r\n\r\nabc",
                400},
        Refused{"NoHost", "GET /echo HTTP/1.1\r\n\r\n", 400}),
    [](const auto& test) { return test.param.name; });

struct Leaving {
  const char* name;
  const char* path;
  void (*leave)(RawClient&);
};

class HttpServerNotices : public ::testing::TestWithParam<Leaving> {};

TEST_P(HttpServerNotices, AClientThatLeavesWhileItsRequestRuns) {
  ServerOnThread server;
  RawClient client(server.port());
  client.Send(Get(GetParam().path));
  ASSERT_TRUE(server.handler().AwaitHeld(1));
  GetParam().leave(client);
  EXPECT_TRUE(server.handler().AwaitClosed(1));
  server.OnLoop([&] {
    for (const auto& [id, exchange] : server.handler().held()) {
      EXPECT_TRUE(exchange->closed());
      exchange->Write("nobody reads this");
      exchange->Finish();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Table, HttpServerNotices,
    ::testing::Values(
        Leaving{"CloseBeforeAnswer", "/hold", [](RawClient& client) { client.Close(); }},
        Leaving{"CloseInStream", "/hold-stream", [](RawClient& client) { client.Close(); }},
        Leaving{"HalfClose", "/hold", [](RawClient& client) { client.EndSending(); }},
        Leaving{"Reset", "/hold-stream",
                [](RawClient& client) {
                  client.ResetOnClose();
                  client.Close();
                }},
        // The read-ahead buffer is full, so nothing more is read: the end is seen all the same.
        Leaving{"CloseBehindReadAhead", "/hold",
                [](RawClient& client) {
                  client.Send(std::string(100'000, 'G'));
                  client.Close();
                }}),
    [](const auto& test) { return test.param.name; });

TEST(HttpServer, ClosesAnExchangeWhosePendingBytesPassTheBound) {
  HttpServerOptions options;
  options.stream_pending_bytes_max = 100'000;
  ServerOnThread server(options);
  RawClient client(server.port());
  client.Send(Get("/hold-stream"));
  ASSERT_TRUE(server.handler().AwaitHeld(1));
  const auto exchange = server.handler().held().begin()->second;
  size_t pending_max = 0;
  bool closed = false;
  // The client doesn't read: the system's buffers take some megabytes, then ours fills.
  for (int i = 0; i < 4000 && !closed; ++i) {
    server.OnLoop([&] {
      exchange->Write(std::string(16 << 10, 'x'));
      pending_max = std::max(pending_max, exchange->pending_bytes());
      closed = exchange->closed();
    });
  }
  EXPECT_TRUE(closed);
  EXPECT_LE(pending_max, options.stream_pending_bytes_max + 64);
  EXPECT_TRUE(server.handler().AwaitClosed(1));
}

TEST(HttpServer, ReportsNoLeavingAfterACompleteAnswer) {
  ServerOnThread server;
  {
    RawClient client(server.port());
    client.Send(kGetEcho);
    EXPECT_EQ(client.ReadResponse().status(), 200);
  }
  RawClient other(server.port());
  other.Send(Get("/hold"));
  ASSERT_TRUE(server.handler().AwaitHeld(1));
  other.Close();
  ASSERT_TRUE(server.handler().AwaitClosed(1));
  EXPECT_FALSE(server.handler().held().empty());
}

TEST(HttpServer, RefusesConnectionsBeyondTheBoundWith503) {
  HttpServerOptions options;
  options.connections_max = 2;
  ServerOnThread server(options);
  RawClient first(server.port());
  RawClient second(server.port());
  first.Send(kGetEcho);
  second.Send(kGetEcho);
  EXPECT_EQ(first.ReadResponse().status(), 200);
  EXPECT_EQ(second.ReadResponse().status(), 200);
  {
    RawClient third(server.port());
    third.Send(kGetEcho);
    EXPECT_EQ(third.ReadResponse().status(), 503);
    third.Close();
  }
  first.Close();
  // Room comes back as soon as the server has seen the end.
  int status = 0;
  for (int i = 0; i < 1000 && status != 200; ++i) {
    RawClient next(server.port());
    next.Send(kGetEcho);
    status = next.ReadResponse().status();
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServer, TellsASlowRequest408) {
  HttpServerOptions options;
  options.request_read_ms = 100;
  ServerOnThread server(options);
  RawClient client(server.port());
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.ReadResponse().status(), 408);
  client.EndSending();
  client.ReadToEnd();
  EXPECT_TRUE(client.ended());
}

TEST(HttpServer, ClosesAnIdleConnection) {
  HttpServerOptions options;
  options.idle_ms = 100;
  ServerOnThread server(options);
  RawClient client(server.port());
  client.Send(kGetEcho);
  EXPECT_EQ(client.ReadResponse().status(), 200);
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(client.ended());
}

TEST(HttpServer, NeverTimesOutARequestThatItsHandlerHolds) {
  HttpServerOptions options;
  options.idle_ms = 50;
  options.request_read_ms = 50;
  options.write_stall_ms = 50;
  ServerOnThread server(options);
  RawClient client(server.port());
  client.Send(Get("/hold-stream"));
  ASSERT_TRUE(server.handler().AwaitHeld(1));
  std::promise<void> later;
  server.server().Post([&] { server.server().After(400, [&] { later.set_value(); }); });
  later.get_future().wait();
  server.OnLoop([&] {
    for (const auto& [id, exchange] : server.handler().held()) {
      exchange->Write("late");
      exchange->Finish();
    }
  });
  EXPECT_EQ(client.ReadResponse().body, "late");
}

TEST(HttpServer, CarriesTwoHundredStreamsAtOnce) {
  constexpr int kStreams = 200;
  ServerOnThread server;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->Send(Get("/hold-stream"));
  }
  ASSERT_TRUE(server.handler().AwaitHeld(kStreams));
  std::string expected;
  for (int piece = 0; piece < 20; ++piece) {
    expected += SseEvent(std::to_string(piece));
    server.OnLoop([&] {
      for (const auto& [id, exchange] : server.handler().held()) {
        exchange->Write(SseEvent(std::to_string(piece)));
      }
    });
  }
  server.OnLoop([&] {
    for (const auto& [id, exchange] : server.handler().held()) exchange->Finish();
  });
  for (const auto& client : clients) EXPECT_EQ(client->ReadResponse().body, expected);
}

TEST(HttpServer, RunsACallbackWhenAWatchedDescriptorIsReadable) {
  Notifier notifier;
  std::atomic<int> calls = 0;
  ServerOnThread server;
  server.OnLoop([&] {
    server.server().WatchDescriptor(notifier.descriptor(), [&] {
      notifier.Clear();
      ++calls;
      calls.notify_all();
    });
  });
  for (int i = 1; i <= 100; ++i) {
    notifier.Notify();
    for (int seen = calls; seen < i; seen = calls) calls.wait(seen);
  }
  EXPECT_EQ(calls, 100);
}

TEST(HttpServer, FinishesRunningAnswersWhenStopped) {
  ScriptedHandler handler;
  auto server = HttpServer::Create({}, handler);
  ASSERT_TRUE(server.ok());
  std::thread thread([&] { (*server)->Run(); });
  const int port = (*server)->port();
  RawClient idle(port);
  RawClient busy(port);
  idle.Send(kGetEcho);
  EXPECT_EQ(idle.ReadResponse().status(), 200);
  busy.Send(Get("/hold-stream"));
  ASSERT_TRUE(handler.AwaitHeld(1));
  (*server)->Stop();
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_FALSE(RawClient(port).connected());
  (*server)->Post([&] {
    for (const auto& [id, exchange] : handler.held()) {
      exchange->Write("bye");
      exchange->Finish();
    }
  });
  EXPECT_EQ(busy.ReadResponse().body, "bye");
  busy.Close();
  thread.join();
}

TEST(HttpServer, CutsOffWhatStillRunsAfterTheStoppingTime) {
  ScriptedHandler handler;
  HttpServerOptions options;
  options.stop_ms = 50;
  auto server = HttpServer::Create(options, handler);
  ASSERT_TRUE(server.ok());
  std::thread thread([&] { (*server)->Run(); });
  RawClient busy((*server)->port());
  busy.Send(Get("/hold"));
  ASSERT_TRUE(handler.AwaitHeld(1));
  (*server)->Stop();
  thread.join();
  EXPECT_TRUE(handler.AwaitClosed(1));
}

TEST(HttpServer, NamesHostAndPortWhenItCannotListen) {
  ServerOnThread taken;
  ScriptedHandler handler;
  HttpServerOptions options;
  options.port = taken.port();
  const auto second = HttpServer::Create(options, handler);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1:" + std::to_string(taken.port())));
  options.host = "256.1.1.1";
  EXPECT_FALSE(HttpServer::Create(options, handler).ok());
}

}  // namespace
}  // namespace remontoir
