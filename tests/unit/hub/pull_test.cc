// Pulls from a hub that is honest, broken or lying: the right file, or a clear error and no file.
#include "hub/pull.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/hub/fake_hub.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kSize = 300'000;
constexpr const char* kReference = "hf:o/r/m.gguf";
constexpr const char* kName = "o/r/m.gguf";

// sha256sum of Content(kSize).
constexpr const char* kDigest = "cbbf1aa1724d6a078f109e131e053eaae7eb669f6ef00b1ad46004a6118d965d";
// sha256sum of Content(kSize, 2).
constexpr const char* kOtherDigest =
    "eeb7c7743e3a743bd39891c08a60cd4462faf4684a3828ec7dbcb312dcaeb47a";

HostedFile Model(bool with_digest = true) {
  return {Content(kSize), "\"v1\"", with_digest ? kDigest : "", true};
}

// The first `bytes` of an honest answer's body, then the end of the connection.
FakeHub::Script BreakOff(FakeHub& hub, size_t bytes) {
  return [&hub, bytes](const SeenRequest& request) {
    RawAnswer answer = hub.Honest(request);
    answer.bytes.resize(answer.bytes.find("\r\n\r\n") + 4 + bytes);
    return answer;
  };
}

FakeHub::Script Status503() {
  return [](const SeenRequest&) { return Answer(503, {}, "later"); };
}

TEST(Pull, BringsAFileUnderItsFinalName) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  PullFixture pull;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  EXPECT_EQ(pulled->path, pull.folder() / kName);
  EXPECT_EQ(pulled->size_bytes, static_cast<int64_t>(kSize));
  EXPECT_FALSE(pulled->already_there);
  EXPECT_TRUE(pulled->all_checked);
  EXPECT_EQ(ReadFile(pulled->path), Content(kSize));
  EXPECT_THAT(pull.folder().Files(), ElementsAre(kName));
  EXPECT_EQ(hub.seen().size(), 1u);

  const auto again = pull.Pull(hub, kReference);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->already_there);
  EXPECT_EQ(hub.seen().size(), 1u);
}

TEST(Pull, ChoosesFromTheList) {
  FakeHub hub;
  hub.File("m.Q8_0.gguf") = Model();
  hub.File("m.Q4_K_M.gguf") = {"small", "", "", true};
  PullFixture pull;
  ASSERT_TRUE(pull.Pull(hub, "hf:o/r").ok());
  ASSERT_TRUE(pull.Pull(hub, "hf:o/r:q8_0").ok());
  EXPECT_THAT(pull.folder().Files(), ElementsAre("o/r/m.Q4_K_M.gguf", "o/r/m.Q8_0.gguf"));
}

TEST(Pull, SaysThatNothingWasCheckedWithoutADigest) {
  FakeHub hub;
  hub.File("m.gguf") = Model(false);
  PullFixture pull;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_TRUE(pulled.ok());
  EXPECT_FALSE(pulled->all_checked);
}

TEST(Pull, BringsAllPartsOfASplitModel) {
  FakeHub hub;
  std::vector<std::string> names;
  for (int part = 1; part <= 3; ++part) {
    const std::string name = "q/m-0000" + std::to_string(part) + "-of-00003.gguf";
    hub.File(name) = {Content(1000, part), "", "", true};
    names.push_back("o/r/" + name);
  }
  for (const char* reference : {"hf:o/r/q/m-00002-of-00003.gguf", "hf:o/r"}) {
    PullFixture pull;
    int parts_seen = 0;
    pull.options().on_progress = [&](const PullProgress& progress) {
      EXPECT_EQ(progress.parts, 3);
      parts_seen = std::max(parts_seen, progress.part);
    };
    const auto pulled = pull.Pull(hub, reference);
    ASSERT_TRUE(pulled.ok()) << pulled.status().message();
    EXPECT_EQ(pulled->path, pull.folder() / names[0]);
    EXPECT_EQ(pulled->size_bytes, 3000);
    EXPECT_EQ(pull.folder().Files(), names);
    EXPECT_EQ(ReadFile(pull.folder() / names[2]), Content(1000, 3));
    EXPECT_EQ(parts_seen, 3);
  }
}

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
  for (const Case& c : cases) {
    for (const bool with_digest : {true, false}) {
      // Without a digest or a linked size these can't be told from an honest answer, and are
      // asked about in RefusesLies.
      const std::string what = c.what;
      const bool needs_digest =
          what == "promises too few bytes" || what == "promises too many bytes" ||
          what == "sends too many bytes" || what == "sends no length and breaks off" ||
          what == "sends wrong bytes once";
      if (needs_digest && !with_digest) continue;
      FakeHub hub;
      hub.File("m.gguf") = Model(with_digest);
      c.arrange(hub);
      PullFixture pull;
      const auto pulled = pull.Pull(hub, kReference);
      ASSERT_TRUE(pulled.ok()) << what << ": " << pulled.status().message();
      EXPECT_EQ(ReadFile(pulled->path), Content(kSize)) << what;
      EXPECT_THAT(pull.folder().Files(), ElementsAre(kName)) << what;
      EXPECT_EQ(hub.seen().size(), c.requests) << what;
    }
  }
}

TEST(Pull, AsksOnlyForTheRestAndOnlyOfTheSameFile) {
  FakeHub hub;
  hub.File("m.gguf") = Model(false);
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
  const struct {
    const char* what;
    bool with_digest;
    bool honours_if_range;
  } cases[] = {{"an honest server", true, true},
               {"an honest server without digests", false, true},
               {"a server that ignores If-Range", true, false},
               {"a server that ignores If-Range and has no digests", false, false}};
  for (const auto& c : cases) {
    FakeHub hub;
    hub.File("m.gguf") = Model(c.with_digest);
    hub.Play({[&](const SeenRequest& request) {
                const RawAnswer answer = BreakOff(hub, 100'000)(request);
                hub.File("m.gguf") = {Content(kSize, 2), "\"v2\"",
                                      c.with_digest ? kOtherDigest : "", true};
                return answer;
              },
              [&](SeenRequest request) {
                if (!c.honours_if_range) request.headers.erase("if-range");
                return hub.Honest(request);
              }});
    PullFixture pull;
    const auto pulled = pull.Pull(hub, kReference);
    ASSERT_TRUE(pulled.ok()) << c.what << ": " << pulled.status().message();
    EXPECT_EQ(ReadFile(pulled->path), Content(kSize, 2)) << c.what;
    EXPECT_THAT(pull.folder().Files(), ElementsAre(kName)) << c.what;
  }
}

// Each of these ends with an error that says so, and with no file under the final name.
TEST(Pull, RefusesLies) {
  struct Case {
    const char* what;
    bool with_digest;
    FakeHub::Script script;
    StatusCode code;
    const char* said;
    bool keeps_partial;
  };
  const auto linked = FakeHub::HeadersOf(Model());
  const Case cases[] = {
      {"wrong bytes", true,
       [&](const SeenRequest&) { return Answer(200, linked, Content(kSize, 2)); },
       StatusCode::kInvalidArgument, kOtherDigest, false},
      {"wrong bytes against an ETag", false,
       [&](const SeenRequest&) {
         return Answer(200, {"ETag: \"" + std::string(kDigest) + "\""}, Content(kSize, 2));
       },
       StatusCode::kInvalidArgument, kOtherDigest, false},
      {"too many bytes without a digest", false,
       [](const SeenRequest&) { return Answer(200, {"X-Linked-Size: 1000"}, Content(kSize)); },
       StatusCode::kInvalidArgument, "more than the expected 1000 bytes", false},
      {"always too few bytes", true,
       [&](const SeenRequest&) {
         return RawAnswer{Head(200, linked, static_cast<long>(kSize)) + Content(1000)};
       },
       StatusCode::kUnavailable, "1000 bytes of 300000 bytes", true},
      {"a short file that claims to be whole", true,
       [&](const SeenRequest&) { return Answer(200, linked, Content(1000)); },
       StatusCode::kUnavailable, "1000 bytes of 300000 bytes", true},
      {"a length without a digest that never comes", false,
       [](const SeenRequest&) {
         return RawAnswer{Head(200, {"ETag: \"x\""}, 2000) + Content(1000)};
       },
       StatusCode::kUnavailable, "1000 bytes of 2000 bytes", true},
      {"parts that nobody asked for", true,
       [&](const SeenRequest&) {
         return Answer(206, {"Content-Range: bytes 0-9/300000"}, "0123456789");
       },
       StatusCode::kUnavailable, "a part where all was asked for", false},
      {"a web page", false,
       [](const SeenRequest&) {
         return Answer(200, {"Content-Type: text/html"}, "<html>log in</html>");
       },
       StatusCode::kFailedPrecondition, "web page", false},
      {"an encoded body", true,
       [&](const SeenRequest&) { return Answer(200, {"Content-Encoding: gzip"}, "..."); },
       StatusCode::kFailedPrecondition, "gzip", false},
      {"no HTTP at all", true, [](const SeenRequest&) { return RawAnswer{"SSH-2.0-x\r\n"}; },
       StatusCode::kFailedPrecondition, "127.0.0.1", false},
      {"redirects without end", true,
       [](const SeenRequest& request) {
         return Answer(302, {"Location: " + request.path + "x"}, "round");
       },
       StatusCode::kFailedPrecondition, "more than 8 redirects", false},
      {"a redirect to nowhere", true, [](const SeenRequest&) { return Answer(302, {}, ""); },
       StatusCode::kFailedPrecondition, "without Location", false},
      {"a redirect to a file", true,
       [](const SeenRequest&) { return Answer(302, {"Location: file:///etc/passwd"}, ""); },
       StatusCode::kFailedPrecondition, "file:///etc/passwd", false},
      {"always busy", true, Status503(), StatusCode::kUnavailable, "gave up after 3 attempts",
       false},
      {"a wait without end", true,
       [](const SeenRequest&) { return Answer(429, {"Retry-After: 86400"}, ""); },
       StatusCode::kResourceExhausted, "86400 s", false},
      {"401", true, [](const SeenRequest&) { return Answer(401, {}, "who?"); },
       StatusCode::kFailedPrecondition, "HF_TOKEN", false},
      {"403", true,
       [](const SeenRequest&) { return Answer(403, {"X-Error-Code: GatedRepo"}, "no"); },
       StatusCode::kFailedPrecondition, "accept its terms", false},
  };
  for (const Case& c : cases) {
    FakeHub hub;
    hub.File("m.gguf") = Model(c.with_digest);
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

TEST(Pull, GoesOnInALaterRun) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  hub.Play({BreakOff(hub, 100'000), Status503()});
  PullFixture pull;
  pull.options().retry.attempts_max = 2;
  const auto broken = pull.Pull(hub, kReference);
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.status().message(), HasSubstr("goes on after the 100 kB that are here"));
  EXPECT_THAT(pull.folder().Files(), ElementsAre("o/r/m.gguf.partial", "o/r/m.gguf.partial.json"));
  ASSERT_TRUE(pull.Pull(hub, kReference).ok());
  EXPECT_EQ(hub.seen().back().Header("range"), "bytes=100000-");
  EXPECT_EQ(ReadFile(pull.folder() / kName), Content(kSize));
}

TEST(Pull, ChecksAFileThatWasCompleteButNotYetChecked) {
  for (const uint32_t seed : {1u, 2u}) {  // right bytes, and wrong ones
    FakeHub hub;
    hub.File("m.gguf") = Model();
    PullFixture pull;
    pull.folder().Write("o/r/m.gguf.partial", Content(kSize, seed));
    pull.folder().Write("o/r/m.gguf.partial.json",
                        R"({"bytes": 300000, "size": 300000, "etag": "\"v1\"", "sha256": ")" +
                            std::string(kDigest) + "\"}");
    const auto pulled = pull.Pull(hub, kReference);
    ASSERT_TRUE(pulled.ok()) << pulled.status().message();
    EXPECT_EQ(ReadFile(pulled->path), Content(kSize));
    EXPECT_EQ(hub.seen().size(), seed - 1);
  }
}

TEST(Pull, ListsTheRepositoryWhenTheFileIsNotThere) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  PullFixture pull;
  const auto pulled = pull.Pull(hub, "hf:o/r/x.gguf");
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(pulled.status().message(), HasSubstr("o/r holds m.gguf (300 kB)"));
  EXPECT_THAT(pull.folder().Files(), IsEmpty());
}

TEST(Pull, ReplacesAFileWhoseSizeTheListContradicts) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  PullFixture pull;
  pull.folder().Write(kName, "an older one");
  const auto pulled = pull.Pull(hub, "hf:o/r");
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  EXPECT_FALSE(pulled->already_there);
  EXPECT_EQ(ReadFile(pulled->path), Content(kSize));
}

TEST(Pull, KeepsTheOlderFileWhenTheNewOneFails) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  hub.PlayAlways([](const SeenRequest&) { return Answer(200, {}, "wrong"); });
  PullFixture pull;
  pull.options().retry.attempts_max = 2;
  pull.folder().Write(kName, "an older one");
  EXPECT_FALSE(pull.Pull(hub, "hf:o/r").ok());
  EXPECT_EQ(ReadFile(pull.folder() / kName), "an older one");
}

TEST(Pull, UsesTheStoreWhenTheHubCannotBeReached) {
  PullFixture pull;
  pull.options().retry.attempts_max = 2;
  pull.folder().Write("o/r/m.Q8_0.gguf", "here");
  std::string address;
  {
    const FakeHub gone;
    address = gone.address();
  }
  HubSettings settings;
  settings.endpoint = *ParseUrl(address);
  settings.home = pull.folder().path();
  const SystemClock clock;
  const std::atomic<bool> cancel{false};
  const auto pulled =
      PullModel(*ParseModelReference("hf:o/r"), settings, pull.options(), clock, cancel);
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  EXPECT_EQ(pulled->path, pull.folder() / "o/r/m.Q8_0.gguf");
  EXPECT_THAT(pull.notes().back(), HasSubstr("using what is in the store"));
  const auto other =
      PullModel(*ParseModelReference("hf:o/x"), settings, pull.options(), clock, cancel);
  EXPECT_EQ(other.status().code(), StatusCode::kUnavailable);
}

TEST(Pull, SendsTheTokenToTheEndpointAloneAndNotAfterLeavingIt) {
  FakeHub hub;
  FakeHub other;
  hub.File("m.gguf") = Model();
  hub.Play({[](const SeenRequest&) { return Answer(307, {"Location: ?renamed"}, ""); },
            [&](const SeenRequest&) {
              auto headers = FakeHub::HeadersOf(hub.File("m.gguf"));
              headers.push_back("Location: " + other.address() + "/blob");
              return Answer(302, headers, "there");
            },
            [&](const SeenRequest& request) {
              SeenRequest file = request;
              file.path = "/o/r/resolve/main/m.gguf";
              return hub.Honest(file);
            }});
  other.PlayAlways([&](const SeenRequest&) {
    return Answer(302, {"Location: " + hub.address() + "/back"}, "back");
  });
  PullFixture pull;
  pull.token() = "hf_secret";
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  const auto seen = hub.seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].Header("authorization"), "Bearer hf_secret");
  EXPECT_EQ(seen[1].Header("authorization"), "Bearer hf_secret");
  EXPECT_EQ(seen[2].Header("authorization"), "");
  ASSERT_EQ(other.seen().size(), 1u);
  EXPECT_EQ(other.seen()[0].Header("authorization"), "");
}

TEST(Pull, ChecksARedirectsTargetAgainstWhatTheHubSaid) {
  FakeHub hub;
  FakeHub other;
  hub.File("m.gguf") = Model();
  hub.PlayAlways([&](const SeenRequest&) {
    auto headers = FakeHub::HeadersOf(hub.File("m.gguf"));
    headers.push_back("Location: " + other.address() + "/blob");
    return Answer(302, headers, "there");
  });
  bool lies = false;
  other.PlayAlways([&](const SeenRequest&) {
    return lies ? Answer(200, {"X-Linked-Etag: " + std::string(kOtherDigest)}, Content(kSize, 2))
                : Answer(200, {"ETag: \"cdn\""}, Content(kSize));
  });
  {
    PullFixture pull;
    const auto pulled = pull.Pull(hub, kReference);
    ASSERT_TRUE(pulled.ok()) << pulled.status().message();
    EXPECT_TRUE(pulled->all_checked);
  }
  lies = true;
  PullFixture pull;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_FALSE(pulled.ok());
  EXPECT_THAT(pulled.status().message(), HasSubstr("SHA-256"));
  EXPECT_THAT(pull.folder().Files(), IsEmpty());
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
  pull.options().limits.stall_window_ms = 150;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_TRUE(pulled.ok()) << pulled.status().message();
  EXPECT_EQ(hub.seen().back().Header("range"), "bytes=1000-");
  EXPECT_THAT(pull.notes().front(), HasSubstr("came in 150 ms"));
}

TEST(Pull, StopsWhenToldAndKeepsWhatCame) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  hub.Play({[&](const SeenRequest& request) {
    RawAnswer answer = BreakOff(hub, 1000)(request);
    answer.hold = true;
    return answer;
  }});
  PullFixture pull;
  pull.options().on_progress = [&](const PullProgress&) { pull.cancel() = true; };
  const auto stopped = pull.Pull(hub, kReference);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(ReadFile(pull.folder() / "o/r/m.gguf.partial"), Content(kSize).substr(0, 1000));
  pull.cancel() = false;
  pull.options().on_progress = {};
  ASSERT_TRUE(pull.Pull(hub, kReference).ok());
  EXPECT_EQ(hub.seen().back().Header("range"), "bytes=1000-");
  EXPECT_EQ(ReadFile(pull.folder() / kName), Content(kSize));
}

TEST(Pull, StopsWhileItWaitsToTryAgain) {
  FakeHub hub;
  hub.PlayAlways(Status503());
  PullFixture pull;
  pull.options().retry.backoff_first_ms = 60'000;
  pull.options().retry.backoff_max_ms = 60'000;
  pull.options().on_note = [&](std::string_view) { pull.cancel() = true; };
  EXPECT_EQ(pull.Pull(hub, kReference).status().code(), StatusCode::kCancelled);
}

TEST(Pull, TwoAtOnceDownloadOnce) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  std::atomic<bool> second_waits{false};
  hub.Play({[&](const SeenRequest& request) {
    while (!second_waits) std::this_thread::yield();
    return hub.Honest(request);
  }});
  PullFixture pull;
  pull.options().on_note = [&](std::string_view note) {
    EXPECT_THAT(std::string(note), HasSubstr("another process downloads it"));
    second_waits = true;
  };
  const auto one = [&] {
    const auto pulled = pull.Pull(hub, kReference);
    EXPECT_TRUE(pulled.ok()) << pulled.status().message();
  };
  std::thread first(one);
  std::thread second(one);
  first.join();
  second.join();
  EXPECT_EQ(hub.seen().size(), 1u);
  EXPECT_EQ(ReadFile(pull.folder() / kName), Content(kSize));
  EXPECT_THAT(pull.folder().Files(), ElementsAre(kName));
}

TEST(Pull, RefusesWhatTheDiskHasNoRoomFor) {
  FakeHub hub;
  hub.PlayAlways([](const SeenRequest&) {
    return RawAnswer{Head(200, {"X-Linked-Size: 1000000000000000"}) + "x"};
  });
  PullFixture pull;
  const auto pulled = pull.Pull(hub, kReference);
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(pulled.status().message(), HasSubstr("1000 TB are to come"));
}

TEST(Pull, ReportsProgressUpToTheEnd) {
  FakeHub hub;
  hub.File("m.gguf") = Model();
  PullFixture pull;
  DownloadProgress downloaded;
  DownloadProgress checked;
  pull.options().on_progress = [&](const PullProgress& progress) {
    EXPECT_EQ(progress.file, "m.gguf");
    (progress.progress.checking ? checked : downloaded) = progress.progress;
  };
  ASSERT_TRUE(pull.Pull(hub, kReference).ok());
  for (const DownloadProgress& progress : {downloaded, checked}) {
    EXPECT_EQ(progress.done_bytes, static_cast<int64_t>(kSize));
    EXPECT_EQ(progress.total_bytes, static_cast<int64_t>(kSize));
  }
}

}  // namespace
}  // namespace remontoir
