// Facts about reading replies: cuts at any byte change nothing, broken bytes are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/sse.h"
#include "loadgen/completion_stream.h"
#include "loadgen/load_target.h"
#include "loadgen/response_reader.h"
#include "loadgen/sse_reader.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kEvents =
    ": a ping\r\n\r\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nevent: x\nid: 7\ndata: three\n\n"
    "data\n\nretry: 5\n\rdata: unfinished\n";

TEST(SseReader, GivesTheSameEventsWhereverTheBytesAreCut) {
  for (size_t cut = 0; cut <= kEvents.size(); ++cut) {
    SseReader reader(100);
    std::vector<std::string> events;
    ASSERT_TRUE(reader.Feed(kEvents.substr(0, cut), events).ok());
    ASSERT_TRUE(reader.Feed(kEvents.substr(cut), events).ok());
    EXPECT_THAT(events, ElementsAre("one", "two\nlines", "three", "")) << cut;
  }
}

TEST(SseReader, ReadsByteByByteWhatOurServerWrites) {
  SseReader reader(100);
  std::vector<std::string> events;
  for (const char c : SseEvent("{\"a\": 1}") + SseEvent("two\nlines")) {
    ASSERT_TRUE(reader.Feed({&c, 1}, events).ok());
  }
  EXPECT_THAT(events, ElementsAre("{\"a\": 1}", "two\nlines"));
}

TEST(SseReader, RefusesAnEventThatNeverEnds) {
  SseReader reader(10);
  std::vector<std::string> events;
  EXPECT_TRUE(reader.Feed("data: 1234", events).ok());
  EXPECT_FALSE(reader.Feed("5", events).ok());
  EXPECT_TRUE(events.empty());
}

TEST(Chunk, SaysWhetherItBringsText) {
  const struct {
    const char* data;
    bool has_text;
  } kCases[] = {
      {R"({"choices":[{"delta":{"content":"a"}}]})", true},
      {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", false},
      {R"({"choices":[{"delta":{"role":"assistant","content":null}}]})", false},
      {R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})", true},
      {R"({"choices":[{"delta":{},"finish_reason":"length"}]})", false},
      {R"({"choices":[{"text":"a"}]})", true},
      {R"({"choices":[{"text":""}]})", false},
      {R"({"choices":[]})", false},
      {R"({"choices":7,"usage":null,"error":null})", false},
      {R"({"choices":[3,{"delta":[]}]})", false},
  };
  for (const auto& [data, has_text] : kCases) {
    const Result<StreamChunk> chunk = ReadChunk(data);
    ASSERT_TRUE(chunk.ok()) << data;
    EXPECT_EQ(chunk->has_text, has_text) << data;
    EXPECT_EQ(chunk->error, "") << data;
    EXPECT_FALSE(chunk->done);
    EXPECT_EQ(chunk->output_tokens, -1);
  }
}

TEST(Chunk, CarriesUsageErrorsAndTheEnd) {
  const StreamChunk usage =
      *ReadChunk(R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":5}})");
  EXPECT_EQ(usage.prompt_tokens, 12);
  EXPECT_EQ(usage.output_tokens, 5);
  EXPECT_EQ(ReadChunk(R"({"error":{"message":"no room"}})")->error, "no room");
  EXPECT_TRUE(ReadChunk("[DONE]")->done);
  for (const char* data : {"", "[1]", "{", "null"}) EXPECT_FALSE(ReadChunk(data).ok()) << data;
}

TEST(CompletionBody, EscapesWhatItIsGiven) {
  const std::string body = CompletionBody(LoadEndpoint::kChat, "a\"b", "line\n", 7);
  EXPECT_THAT(body, HasSubstr(R"("model":"a\"b")"));
  EXPECT_THAT(body, HasSubstr(R"("content":"line\n")"));
  EXPECT_THAT(body, HasSubstr(R"("max_tokens":7)"));
  EXPECT_THAT(body, HasSubstr(R"("ignore_eos":true)"));
  EXPECT_THAT(CompletionBody(LoadEndpoint::kCompletions, "m", "text", 7),
              HasSubstr(R"("prompt":"text")"));
}

TEST(ErrorMessage, IsTheBodysOwnWhereItHasOne) {
  EXPECT_EQ(ErrorMessage(R"({"error":{"message":"queue full"}})"), "queue full");
  EXPECT_EQ(ErrorMessage("plain"), "plain");
  EXPECT_EQ(ErrorMessage(std::string(9999, 'x')).size(), 300U);
}

constexpr std::string_view kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Batch-Size: 3\r\n"
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";

TEST(ResponseReader, ReadsChunksWhereverTheBytesAreCut) {
  for (size_t cut = 0; cut <= kChunked.size(); ++cut) {
    ResponseReader reader(1000, 1000);
    ASSERT_TRUE(reader.Feed(kChunked.substr(0, cut)).ok());
    std::string body = reader.TakeBody();
    ASSERT_TRUE(reader.Feed(kChunked.substr(cut)).ok());
    body += reader.TakeBody();
    ASSERT_TRUE(reader.is_done()) << cut;
    EXPECT_EQ(reader.status(), 200);
    EXPECT_EQ(reader.Header("x-batch-size"), "3");
    EXPECT_EQ(reader.Header("x-none"), std::nullopt);
    EXPECT_EQ(body, "hello world") << cut;
  }
}

TEST(ResponseReader, ReadsByteByByte) {
  ResponseReader reader(1000, 1000);
  std::string body;
  for (const char c : kChunked) {
    EXPECT_FALSE(reader.is_done());
    ASSERT_TRUE(reader.Feed({&c, 1}).ok());
    body += reader.TakeBody();
  }
  EXPECT_TRUE(reader.is_done());
  EXPECT_EQ(body, "hello world");
}

TEST(ResponseReader, ABodyWithoutALengthEndsWithTheConnection) {
  ResponseReader reader(1000, 1000);
  ASSERT_TRUE(reader.Feed("HTTP/1.1 200 OK\r\n\r\nsome").ok());
  EXPECT_FALSE(reader.is_done());
  EXPECT_TRUE(reader.FeedEnd().ok());
  EXPECT_EQ(reader.TakeBody(), "some");
}

TEST(ResponseReader, AnEarlyEndIsAnError) {
  for (const std::string_view begun :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"}) {
    ResponseReader reader(1000, 1000);
    ASSERT_TRUE(reader.Feed(begun).ok());
    EXPECT_FALSE(reader.FeedEnd().ok()) << begun;
  }
}

TEST(ResponseReader, RefusesWhatIsMalformedOrTooLarge) {
  const std::string large_head = "HTTP/1.1 200 OK\r\nX: " + std::string(2000, 'x') + "\r\n\r\n";
  const std::string large_body = "HTTP/1.1 200 OK\r\n\r\n" + std::string(2000, 'x');
  for (const std::string_view bytes :
       {std::string_view("SSH-2.0-x\r\n\r\n"),
        std::string_view("HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n"),
        std::string_view(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nhello\r\n0\r\n\r\n"),
        std::string_view(large_head), std::string_view(large_body)}) {
    ResponseReader reader(1000, 1000);
    EXPECT_FALSE(reader.Feed(bytes).ok()) << bytes.substr(0, 60);
  }
}

TEST(LoadTarget, TakesHostPortAndBaseFromTheAddress) {
  const struct {
    const char* url;
    const char* host;
    const char* port;
    const char* authority;
    const char* path;
  } kCases[] = {
      {"http://127.0.0.1:8080", "127.0.0.1", "8080", "127.0.0.1:8080", ""},
      {"http://localhost", "localhost", "80", "localhost:80", ""},
      {"http://[::1]:9/", "::1", "9", "[::1]:9", ""},
      {"http://h:1/v1", "h", "1", "h:1", ""},
      {"http://h:1/api/v1/?x=1", "h", "1", "h:1", "/api"},
  };
  for (const auto& expected : kCases) {
    const Result<LoadTarget> target = ParseLoadTarget(expected.url);
    ASSERT_TRUE(target.ok()) << expected.url;
    EXPECT_EQ(target->host, expected.host) << expected.url;
    EXPECT_EQ(target->port, expected.port) << expected.url;
    EXPECT_EQ(target->authority, expected.authority) << expected.url;
    EXPECT_EQ(target->path, expected.path) << expected.url;
  }
  for (const char* url : {"", "https://h", "ftp://h", "http://u:p@h", "http://"}) {
    EXPECT_FALSE(ParseLoadTarget(url).ok()) << url;
  }
}

}  // namespace
}  // namespace remontoir
