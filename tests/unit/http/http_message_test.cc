// Header lookup, percent decoding and the framing of events.
#include "http/http_message.h"

#include <gtest/gtest.h>

#include "http/request_parser.h"
#include "http/sse.h"

namespace remontoir {
namespace {

TEST(HttpHeaders, FindIgnoresCaseAndTakesTheFirst) {
  const HttpHeaders headers = {{"X-One", "1"}, {"x-one", "2"}};
  EXPECT_EQ(headers.Find("x-ONE"), "1");
  EXPECT_EQ(headers.Find("x-two"), std::nullopt);
}

TEST(PercentDecode, LeavesWhatIsNotAnEscape) {
  const std::pair<const char*, std::string> cases[] = {
      {"", ""},         {"a%2Fb", "a/b"}, {"%e2%82%AC", "\xe2\x82\xac"},
      {"100%", "100%"}, {"%zz", "%zz"},   {"%4", "%4"},
      {"%41", "A"}};
  for (const auto& [text, decoded] : cases) EXPECT_EQ(PercentDecode(text), decoded) << text;
}

TEST(SseEvent, FramesEveryLineOfItsData) {
  EXPECT_EQ(SseEvent("{}"), "data: {}\n\n");
  EXPECT_EQ(SseEvent("a\nb"), "data: a\ndata: b\n\n");
}

TEST(RequestParser, SplitsTargets) {
  const struct {
    const char* target;
    const char* path;
    const char* query;
  } cases[] = {{"/", "/", ""},
               {"/v1/models?x=1&y", "/v1/models", "x=1&y"},
               {"http://host:1/a?b", "/a", "b"},
               {"http://host", "/", ""},
               {"/a?u=http://b/c", "/a", "u=http://b/c"},
               {"*", "*", ""}};
  for (const auto& [target, path, query] : cases) {
    RequestParser parser(4096, 4096);
    const std::string text = "GET " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n\r\n";
    EXPECT_EQ(parser.Feed(text), text.size());
    ASSERT_EQ(parser.state(), RequestParser::State::kComplete) << target;
    const HttpRequest request = parser.Take();
    EXPECT_EQ(request.path, path);
    EXPECT_EQ(request.query, query);
  }
}

}  // namespace
}  // namespace remontoir
