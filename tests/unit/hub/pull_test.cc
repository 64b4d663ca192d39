// Pulls from an honest hub: what comes, what is kept, who sees the token, when it stops.
#include "hub/pull.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/unit/hub/fake_hub.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  hub.File("m.Q4_K_M.gguf") = {"small", "", ""};
  PullFixture pull;
  ASSERT_TRUE(pull.Pull(hub, "hf:o/r").ok());
  ASSERT_TRUE(pull.Pull(hub, "hf:o/r:q8_0").ok());
  EXPECT_THAT(pull.folder().Files(), ElementsAre("o/r/m.Q4_K_M.gguf", "o/r/m.Q8_0.gguf"));
}

TEST(Pull, SaysThatNothingWasCheckedWithoutADigest) {
  FakeHub hub;
  hub.HostModel(FakeHub::Teller::kNobody);
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
    hub.File(name) = {Content(1000, part), "", ""};
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
  hub.File("m.gguf") = {"small enough to be sent at once", "", ""};
  PullFixture pull;
  std::atomic<bool> second_waits{false};
  pull.options().on_note = [&](std::string_view note) {
    EXPECT_THAT(std::string(note), HasSubstr("another process downloads it"));
    second_waits = true;
  };
  pull.options().on_progress = [&](const PullProgress&) {
    for (int ms = 0; ms < 10'000 && !second_waits; ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
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
  EXPECT_EQ(ReadFile(pull.folder() / kName), "small enough to be sent at once");
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
