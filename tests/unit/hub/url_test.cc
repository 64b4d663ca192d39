// Where redirects may lead, and what counts as the same server.
#include "hub/url.h"

#include <gmock/gmock.h>

namespace remontoir {
namespace {

using ::testing::HasSubstr;

TEST(ParseUrl, ReadsItsParts) {
  const struct {
    const char* text;
    const char* scheme;
    const char* host;
    const char* port;
  } cases[] = {{"https://HuggingFace.co", "https", "huggingface.co", "443"},
               {"http://127.0.0.1:8080/mirror", "http", "127.0.0.1", "8080"},
               {"HTTP://[::1]/x?y=1#z", "http", "[::1]", "80"}};
  for (const auto& c : cases) {
    const auto url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << url.status().message();
    EXPECT_EQ(url->scheme, c.scheme);
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->text.find('#'), std::string::npos);
  }
}

TEST(ParseUrl, RefusesWhatIsNoAddressOfAHub) {
  for (const std::string& text :
       {std::string(), std::string("huggingface.co"), std::string("file:///etc/passwd"),
        std::string("ftp://a/b"), std::string("https://"), std::string("https://user:pw@a/"),
        std::string("http://a:99999/"), std::string("http://a b/"),
        std::string("http://a\0b/", 11)}) {
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
  }
}

TEST(ResolveRedirect, FollowsRelativeAndAbsoluteLocations) {
  const struct {
    const char* from;
    const char* location;
    const char* to;
  } cases[] = {{"https://a/x/y", "https://b/z?q=1", "https://b/z?q=1"},
               {"https://a/x/y", "/z", "https://a/z"},
               {"https://a/x/y", "z", "https://a/x/z"},
               {"https://a/x/y", "//b/z", "https://b/z"},
               {"http://a:81/x", "https://b/z", "https://b/z"},
               {"http://a:81/x", "../../z", "http://a:81/z"}};
  for (const auto& c : cases) {
    const auto url = ResolveRedirect(*ParseUrl(c.from), c.location);
    ASSERT_TRUE(url.ok()) << url.status().message();
    EXPECT_EQ(url->text, c.to);
  }
}

TEST(ResolveRedirect, RefusesADowngradeAndOtherSchemes) {
  const std::pair<const char*, const char*> cases[] = {{"http://b/z", "https to http"},
                                                       {"file:///etc/passwd", "address"},
                                                       {"ftp://b/", "only http"},
                                                       {"https://u:p@b/", "password"}};
  for (const auto& [location, reason] : cases) {
    const auto url = ResolveRedirect(*ParseUrl("https://a/x"), location);
    ASSERT_FALSE(url.ok()) << location;
    EXPECT_THAT(url.status().message(), HasSubstr(reason));
  }
}

TEST(SameOrigin, ComparesSchemeHostAndPort) {
  const Url a = *ParseUrl("https://a/");
  EXPECT_TRUE(SameOrigin(a, *ParseUrl("https://A:443/other")));
  for (const char* other : {"http://a/", "https://a:444/", "https://b.a/", "https://a.b/"}) {
    EXPECT_FALSE(SameOrigin(a, *ParseUrl(other))) << other;
  }
}

TEST(EscapePath, KeepsSlashesAndEscapesTheRest) {
  EXPECT_EQ(EscapePath("a/b-c_d.e~f"), "a/b-c_d.e~f");
  EXPECT_EQ(EscapePath("a b?#%+\xc3\xa9"), "a%20b%3F%23%25%2B%C3%A9");
}

}  // namespace
}  // namespace remontoir
