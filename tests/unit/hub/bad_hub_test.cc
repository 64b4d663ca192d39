// Pulls from a hub that breaks off, lies or changes: the right file, or a clear error and no file.
#include <gmock/gmock.h>

#include <set>

#include "base/random.h"
#include "tests/unit/hub/fake_hub.h"

namespace remontoir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Teller = FakeHub::Teller;

// Each of these ends with the right file.
TEST(Pull, OvercomesABadConnection) {
  struct Case {
    const char* what;
    std::function<void(FakeHub&)> arrange;
    size_t requests;
  };
  const auto too_long = [](FakeHub& hub, const std::string& extra) {
    return [&hub, extra](const SeenRequest&) {
      const HostedFile& file = hub.File("m.gguf");
      return RawAnswer{Head(200, FakeHub::HeadersOf(file), static_cast<long>(kSize + 1000)) +
                       file.content + extra};
    };
  };
  const Case cases[] = {
      {"breaks off once", [](FakeHub& hub) { hub.Play({BreakOff(hub, 100'000)}); }, 2},
      {"breaks off before the body", [](FakeHub& hub) { hub.Play({BreakOff(hub, 0)}); }, 2},
      {"breaks off three times",
       [](FakeHub& hub) {
         hub.Play({BreakOff(hub, 100'000), BreakOff(hub, 50'000), BreakOff(hub, 1)});
       },
       4},
      {"breaks off without ranges",
       [](FakeHub& hub) {
         hub.File("m.gguf").ranges = false;
         hub.Play({BreakOff(hub, 100'000), BreakOff(hub, 50'000)});
       },
       3},
      {"closes without an answer",
       [](FakeHub& hub) { hub.Play({[](const SeenRequest&) { return RawAnswer{}; }}); }, 2},
      {"is busy twice",
       [](FakeHub& hub) {
         hub.Play({Status503(), Status503()});
       },
       3},
      {"limits requests",
       [](FakeHub& hub) {
         hub.Play({[](const SeenRequest&) { return Answer(429, {"Retry-After: 0"}, "slow"); }});
       },
       2},
      {"promises too few bytes",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           const HostedFile& file = hub.File("m.gguf");
           return RawAnswer{Head(200, FakeHub::HeadersOf(file), 1000) + file.content};
         }});
       },
       2},
      {"promises too many bytes", [&](FakeHub& hub) { hub.Play({too_long(hub, "")}); }, 1},
      {"sends too many bytes",
       [&](FakeHub& hub) { hub.Play({too_long(hub, std::string(1000, 'x'))}); }, 2},
      {"sends no length",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           const HostedFile& file = hub.File("m.gguf");
           return RawAnswer{Head(200, FakeHub::HeadersOf(file)) + file.content};
         }});
       },
       1},
      {"sends no length and breaks off",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           const HostedFile& file = hub.File("m.gguf");
           return RawAnswer{Head(200, FakeHub::HeadersOf(file)) + file.content.substr(0, 5000)};
         }});
       },
       2},
      {"sends chunks",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           const HostedFile& file = hub.File("m.gguf");
           std::vector<std::string> headers = FakeHub::HeadersOf(file);
           headers.push_back("Transfer-Encoding: chunked");
           return RawAnswer{Head(200, headers) + "493e0\r\n" + file.content + "\r\n0\r\n\r\n"};
         }});
       },
       1},
      {"breaks off in a chunk",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           const HostedFile& file = hub.File("m.gguf");
           std::vector<std::string> headers = FakeHub::HeadersOf(file);
           headers.push_back("Transfer-Encoding: chunked");
           return RawAnswer{Head(200, headers) + "493e0\r\n" + file.content.substr(0, 5000)};
         }});
       },
       2},
      {"sends wrong bytes once",
       [](FakeHub& hub) {
         hub.Play({[&hub](const SeenRequest&) {
           return Answer(200, FakeHub::HeadersOf(hub.File("m.gguf")), Content(kSize, 2));
         }});
       },
       2},
      {"sends the wrong range",
       [](FakeHub& hub) {
         hub.Play({BreakOff(hub, 1000), [](const SeenRequest&) {
                     return Answer(206, {"Content-Range: bytes 0-9/300000"}, "0123456789");
                   }});
       },
       3},
      {"refuses ranges",
       [](FakeHub& hub) {
         hub.Play({BreakOff(hub, 1000), [](const SeenRequest&) { return Answer(416, {}); }});
       },
       3},
      {"redirects within itself",
       [](FakeHub& hub) {
         hub.Play(
             {[](const SeenRequest&) { return Answer(307, {"Location: ?moved=1"}, "moved"); },
              [&hub](const SeenRequest&) { return Answer(200, {}, hub.File("m.gguf").content); }});
       },
       2},
  };
  // Nobody could tell these from an honest answer without a digest or a size from elsewhere.
  const std::set<std::string> need_teller = {
      "promises too few bytes", "promises too many bytes", "sends too many bytes",
      "sends no length and breaks off", "sends wrong bytes once"};
  for (const Case& c : cases) {
    for (const Teller teller : {Teller::kHeadersAndList, Teller::kList, Teller::kNobody}) {
      if (teller == Teller::kNobody && need_teller.contains(c.what)) continue;
      FakeHub hub;
      hub.HostModel(teller);
      c.arrange(hub);
      PullFixture pull;
      const auto pulled = pull.Pull(hub, kReference);
      ASSERT_TRUE(pulled.ok()) << c.what << ": " << pulled.status().message();
      EXPECT_EQ(ReadFile(pulled->path), Content(kSize)) << c.what;
      EXPECT_THAT(pull.folder().Files(), ElementsAre(kName)) << c.what;
      EXPECT_EQ(hub.seen().size(), c.requests) << c.what;
    }
  }
}

TEST(Pull, AsksOnlyForTheRestAndOnlyOfTheSameFile) {
  FakeHub hub;
  hub.HostModel(FakeHub::Teller::kNobody);
  hub.Play({BreakOff(hub, 100'000)});
  PullFixture pull;
  ASSERT_TRUE(pull.Pull(hub, kReference).ok());
  const auto seen = hub.seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].Header("range"), "");
  EXPECT_EQ(seen[1].Header("range"), "bytes=100000-");
  EXPECT_EQ(seen[1].Header("if-range"), "\"v1\"");
}

TEST(Pull, StartsAgainWithoutAValidator) {
  FakeHub hub;
  hub.File("m.gguf") = {Content(kSize), "W/\"weak\"", "", true};
  hub.Play({BreakOff(hub, 100'000)});
  PullFixture pull;
  ASSERT_TRUE(pull.Pull(hub, kReference).ok());
  EXPECT_EQ(hub.seen()[1].Header("range"), "");
  EXPECT_EQ(ReadFile(pull.folder() / kName), Content(kSize));
}

TEST(Pull, TakesTheNewFileWhenItChangesInBetween) {
  for (const Teller teller : {Teller::kHeadersAndList, Teller::kNobody}) {
    for (const bool honours_if_range : {true, false}) {
      FakeHub hub;
      hub.HostModel(teller);
      hub.Play({[&](const SeenRequest& request) {
                  const RawAnswer answer = BreakOff(hub, 100'000)(request);
                  HostedFile& file = hub.File("m.gguf");
                  file.content = Content(kSize, 2);
                  file.etag = "\"v2\"";
                  file.sha256 = kOtherDigest;
                  return answer;
                },
                [&](SeenRequest request) {
                  if (!honours_if_range) request.headers.erase("if-range");
                  return hub.Honest(request);
                }});
      PullFixture pull;
      const auto pulled = pull.Pull(hub, kReference);
      ASSERT_TRUE(pulled.ok()) << pulled.status().message();
      EXPECT_EQ(ReadFile(pulled->path), Content(kSize, 2));
      EXPECT_THAT(pull.folder().Files(), ElementsAre(kName));
    }
  }
}

TEST(Pull, SaysSoWhenTheFileIsNoLongerTheOneInTheList) {
  FakeHub hub;
  hub.HostModel(Teller::kList);
  hub.PlayAlways(
      [](const SeenRequest&) { return Answer(200, {"ETag: \"v2\""}, Content(kSize, 2)); });
  PullFixture pull;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_FALSE(pulled.ok());
  EXPECT_THAT(pulled.status().message(), HasSubstr(kOtherDigest));
  EXPECT_TRUE(pull.folder().Files().empty());
}

// Each of these ends with an error that says so, and with no file under the final name.
TEST(Pull, RefusesLies) {
  struct Case {
    const char* what;
    Teller teller;
    FakeHub::Script script;
    StatusCode code;
    const char* said;
    bool keeps_partial;
  };
  const auto linked = FakeHub::HeadersOf(Model());
  const Case cases[] = {
      {"wrong bytes", Teller::kHeadersAndList,
       [&](const SeenRequest&) { return Answer(200, linked, Content(kSize, 2)); },
       StatusCode::kInvalidArgument, kOtherDigest, false},
      {"wrong bytes against an ETag", Teller::kNobody,
       [&](const SeenRequest&) {
         return Answer(200, {"ETag: \"" + std::string(kDigest) + "\""}, Content(kSize, 2));
       },
       StatusCode::kInvalidArgument, kOtherDigest, false},
      {"too many bytes without a digest", Teller::kNobody,
       [](const SeenRequest&) { return Answer(200, {"X-Linked-Size: 1000"}, Content(kSize)); },
       StatusCode::kInvalidArgument, "more than the expected 1000 bytes", false},
      {"always too few bytes", Teller::kHeadersAndList,
       [&](const SeenRequest&) {
         return RawAnswer{Head(200, linked, static_cast<long>(kSize)) + Content(1000)};
       },
       StatusCode::kUnavailable, "1000 bytes of 300000 bytes", true},
      {"a short file that claims to be whole", Teller::kHeadersAndList,
       [&](const SeenRequest&) { return Answer(200, linked, Content(1000)); },
       StatusCode::kUnavailable, "1000 bytes of 300000 bytes", true},
      {"a length without a digest that never comes", Teller::kNobody,
       [](const SeenRequest&) {
         return RawAnswer{Head(200, {"ETag: \"x\""}, 2000) + Content(1000)};
       },
       StatusCode::kUnavailable, "1000 bytes of 2000 bytes", true},
      {"parts that nobody asked for", Teller::kHeadersAndList,
       [&](const SeenRequest&) {
         return Answer(206, {"Content-Range: bytes 0-9/300000"}, "0123456789");
       },
       StatusCode::kUnavailable, "a part where all was asked for", false},
      {"a web page", Teller::kNobody,
       [](const SeenRequest&) {
         return Answer(200, {"Content-Type: text/html"}, "<html>log in</html>");
       },
       StatusCode::kFailedPrecondition, "web page", false},
      {"an encoded body", Teller::kHeadersAndList,
       [&](const SeenRequest&) { return Answer(200, {"Content-Encoding: gzip"}, "..."); },
       StatusCode::kFailedPrecondition, "gzip", false},
      {"no HTTP at all", Teller::kHeadersAndList,
       [](const SeenRequest&) { return RawAnswer{"SSH-2.0-x\r\n"}; },
       StatusCode::kFailedPrecondition, "127.0.0.1", false},
      {"redirects without end", Teller::kHeadersAndList,
       [](const SeenRequest& request) {
         return Answer(302, {"Location: " + request.path + "x"}, "round");
       },
       StatusCode::kFailedPrecondition, "more than 8 redirects", false},
      {"a redirect to nowhere", Teller::kHeadersAndList,
       [](const SeenRequest&) { return Answer(302, {}, ""); }, StatusCode::kFailedPrecondition,
       "without Location", false},
      {"a redirect to a file", Teller::kHeadersAndList,
       [](const SeenRequest&) { return Answer(302, {"Location: file:///etc/passwd"}, ""); },
       StatusCode::kFailedPrecondition, "file:///etc/passwd", false},
      {"always busy", Teller::kHeadersAndList, Status503(), StatusCode::kUnavailable,
       "gave up after 3 attempts", false},
      {"a wait without end", Teller::kHeadersAndList,
       [](const SeenRequest&) { return Answer(429, {"Retry-After: 86400"}, ""); },
       StatusCode::kResourceExhausted, "86400 s", false},
      {"401", Teller::kHeadersAndList, [](const SeenRequest&) { return Answer(401, {}, "who?"); },
       StatusCode::kFailedPrecondition, "HF_TOKEN", false},
      {"403", Teller::kHeadersAndList,
       [](const SeenRequest&) { return Answer(403, {"X-Error-Code: GatedRepo"}, "no"); },
       StatusCode::kFailedPrecondition, "accept its terms", false},
  };
  for (const Case& c : cases) {
    FakeHub hub;
    hub.HostModel(c.teller);
    hub.PlayAlways(c.script);
    PullFixture pull;
    pull.options().retry.attempts_max = 3;
    const auto pulled = pull.Pull(hub, kReference);
    ASSERT_FALSE(pulled.ok()) << c.what;
    EXPECT_EQ(pulled.status().code(), c.code) << c.what << ": " << pulled.status().message();
    EXPECT_THAT(pulled.status().message(), HasSubstr(c.said)) << c.what;
    EXPECT_THAT(pulled.status().message(), HasSubstr("o/r/m.gguf")) << c.what;
    EXPECT_FALSE(Exists(pull.folder() / kName)) << c.what;
    EXPECT_EQ(pull.folder().Files().empty(), !c.keeps_partial) << c.what;
    EXPECT_LE(hub.seen().size(), 10u) << c.what;
  }
}

TEST(Pull, GivesUpOnASilentServerAndGoesOn) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  hub.Play({[&](const SeenRequest& request) {
    RawAnswer answer = BreakOff(hub, 1000)(request);
    answer.hold = true;
    return answer;
  }});
  PullFixture pull;
  pull.options().limits.stall_window_ms = 1000;
  pull.options().retry.attempts_max = 100;  // a busy machine may be silent too
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  EXPECT_EQ(ReadFile(pulled->path), Content(kSize));
  EXPECT_THAT(pull.notes(), Contains(HasSubstr("bytes came in 1000 ms")));
}

// One of the ways to answer badly or well, drawn from `random` by what was drawn before.
FakeHub::Script AnyScript(FakeHub& hub, const CounterRandom& random, uint64_t& counter) {
  const size_t bytes = random.Bits(counter++) % (kSize + 1);
  switch (random.Bits(counter++) % 8) {
    case 0: return Status503();
    case 1: return [](const SeenRequest&) { return RawAnswer{}; };
    case 2:
      return [](const SeenRequest&) {
        return Answer(206, {"Content-Range: bytes 0-9/300000"}, "0123456789");
      };
    case 3: return [](const SeenRequest&) { return Answer(416, {}); };
    case 4:  // the file changes, and the first answer about the new one is cut
      return [&hub, bytes](const SeenRequest& request) {
        HostedFile& file = hub.File("m.gguf");
        const bool first = file.etag == "\"v1\"";
        file.content = Content(kSize, first ? 2 : 1);
        file.etag = first ? "\"v2\"" : "\"v1\"";
        file.sha256 = first ? kOtherDigest : kDigest;
        return BreakOff(hub, bytes)(request);
      };
    default: return BreakOff(hub, bytes);
  }
}

TEST(Pull, AnyMixOfFaultsEndsWithOneOfTheRightFilesOrWithNone) {
  int arrived = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const CounterRandom random(seed, 0);
    uint64_t counter = 0;
    FakeHub hub;
    hub.HostModel(random.Bits(counter++) % 2 == 0 ? Teller::kHeadersAndList : Teller::kNobody);
    hub.File("m.gguf").ranges = random.Bits(counter++) % 4 != 0;
    std::vector<FakeHub::Script> scripts;
    for (uint64_t i = random.Bits(counter++) % 8; i > 0; --i) {
      scripts.push_back(AnyScript(hub, random, counter));
    }
    hub.Play(scripts);
    PullFixture pull;
    pull.options().retry.backoff_first_ms = 0;
    const auto pulled = pull.Pull(hub, kReference);
    const std::string content = ReadFile(pull.folder() / kName);
    EXPECT_EQ(pulled.ok(), !content.empty()) << "seed " << seed;
    if (!pulled.ok()) continue;
    ++arrived;
    EXPECT_TRUE(content == Content(kSize, 1) || content == Content(kSize, 2)) << "seed " << seed;
  }
  EXPECT_GT(arrived, 20);
}

}  // namespace
}  // namespace remontoir
