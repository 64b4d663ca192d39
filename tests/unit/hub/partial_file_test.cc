// Files on their way: what survives, who may write, what a full disk says.
#include "hub/partial_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "hub/sha256.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const PartialFile::LockWait kDontWait = {[] {}, [] { return false; }};

std::unique_ptr<PartialFile> Open(const std::string& path) {
  auto partial = PartialFile::Open(path, kDontWait);
  EXPECT_TRUE(partial.ok()) << partial.status().message();
  return std::move(partial).value();
}

TEST(PartialFile, KeepsBytesAndWhatIsKnownForTheNextOpen) {
  const TemporaryFolder folder;
  const std::string path = folder / "o/r/f.gguf";
  const std::string digest(64, 'a');
  {
    const auto partial = Open(path);
    ASSERT_TRUE(partial->Begin("\"e\"", {digest, 10}).ok());
    ASSERT_TRUE(partial->Append("12345").ok());
    ASSERT_TRUE(partial->Checkpoint().ok());
  }
  EXPECT_THAT(folder.Files(), ElementsAre("o/r/f.gguf.partial", "o/r/f.gguf.partial.json"));
  const auto partial = Open(path);
  EXPECT_EQ(partial->state().bytes, 5);
  EXPECT_EQ(partial->state().etag, "\"e\"");
  EXPECT_EQ(partial->state().expected.sha256, digest);
  EXPECT_EQ(partial->state().expected.size_bytes, 10);
  ASSERT_TRUE(partial->Append("67890").ok());
  ASSERT_TRUE(partial->Publish().ok());
  EXPECT_THAT(folder.Files(), ElementsAre("o/r/f.gguf"));
  EXPECT_EQ(ReadFile(path), "1234567890");
}

TEST(PartialFile, ForgetsBytesThatNoCheckpointVouchesFor) {
  const TemporaryFolder folder;
  const std::string path = folder / "f.gguf";
  {
    const auto partial = Open(path);
    ASSERT_TRUE(partial->Begin("\"e\"", {}).ok());
    ASSERT_TRUE(partial->Append("123").ok());
    ASSERT_TRUE(partial->Checkpoint().ok());
    ASSERT_TRUE(partial->Append("45").ok());
  }
  EXPECT_EQ(Open(path)->state().bytes, 3);
  EXPECT_EQ(ReadFile(path + ".partial"), "123");
}

TEST(PartialFile, StartsFromNothingWhenTheSidecarIsDamaged) {
  for (const char* sidecar : {"", "{", "[]", "{\"bytes\": -1}", "{\"bytes\": \"3\"}"}) {
    const TemporaryFolder folder;
    folder.Write("f.gguf.partial", "123");
    folder.Write("f.gguf.partial.json", sidecar);
    EXPECT_EQ(Open(folder / "f.gguf")->state().bytes, 0) << sidecar;
    EXPECT_THAT(folder.Files(), IsEmpty());
  }
}

TEST(PartialFile, NeverCountsMoreThanIsOnDisk) {
  const TemporaryFolder folder;
  folder.Write("f.gguf.partial", "123");
  folder.Write("f.gguf.partial.json", "{\"bytes\": 100, \"etag\": \"\\\"e\\\"\"}");
  EXPECT_EQ(Open(folder / "f.gguf")->state().bytes, 3);
}

TEST(PartialFile, IsHeldByOneAtATime) {
  const TemporaryFolder folder;
  const auto held = Open(folder / "f.gguf");
  bool said = false;
  const auto second =
      PartialFile::Open(folder / "f.gguf", {[&] { said = true; }, [] { return false; }});
  EXPECT_TRUE(said);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(RemovePartial(folder / "f.gguf").code(), StatusCode::kFailedPrecondition);
}

TEST(PartialFile, TheOneWhoWaitedGetsAFileOfItsOwn) {
  const TemporaryFolder folder;
  const std::string path = folder / "f.gguf";
  auto held = Open(path);
  ASSERT_TRUE(held->Begin("", {}).ok());
  ASSERT_TRUE(held->Append("first").ok());
  std::atomic<bool> waits{false};
  std::thread second([&] {
    const auto partial = PartialFile::Open(path, {[&] { waits = true; }, [] { return true; }});
    ASSERT_TRUE(partial.ok());
    EXPECT_EQ((*partial)->state().bytes, 0);
  });
  while (!waits) std::this_thread::yield();
  EXPECT_TRUE(held->Publish().ok());
  held.reset();
  second.join();
  EXPECT_EQ(ReadFile(path), "first");
  EXPECT_THAT(folder.Files(), ElementsAre("f.gguf"));
}

TEST(PartialFile, DoesNotPublishWhatSomebodyElsePutThere) {
  const TemporaryFolder folder;
  const auto partial = Open(folder / "f.gguf");
  ASSERT_TRUE(partial->Begin("", {}).ok());
  std::filesystem::remove(folder / "f.gguf.partial");
  folder.Write("f.gguf.partial", "other");
  EXPECT_EQ(partial->Publish().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Exists(folder / "f.gguf"));
}

TEST(PartialFile, NamesTheFileThatCannotBeWritten) {
  const TemporaryFolder folder;
  folder.Write("o", "a file where a folder should be");
  const auto blocked = PartialFile::Open(folder / "o/r/f.gguf", kDontWait);
  ASSERT_FALSE(blocked.ok());
  EXPECT_THAT(blocked.status().message(), HasSubstr(folder / "o/r"));

  // A limit on the size of files stands in for a full disk.
  const auto partial = Open(folder / "f.gguf");
  ASSERT_TRUE(partial->Begin("", {}).ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = partial->Append(std::string(2000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("f.gguf.partial: cannot be written: "));
}

TEST(PartialFile, FollowsNoSymbolicLink) {
  const TemporaryFolder folder;
  folder.Write("victim", "precious");
  std::filesystem::create_symlink(folder / "victim", folder / "f.gguf.partial");
  EXPECT_FALSE(PartialFile::Open(folder / "f.gguf", kDontWait).ok());
  EXPECT_EQ(ReadFile(folder / "victim"), "precious");
}

TEST(RemovePartial, TakesTheSidecarToo) {
  const TemporaryFolder folder;
  folder.Write("f.gguf.partial", "123");
  folder.Write("f.gguf.partial.json", "{}");
  EXPECT_TRUE(RemovePartial(folder / "f.gguf").ok());
  EXPECT_THAT(folder.Files(), IsEmpty());
  EXPECT_TRUE(RemovePartial(folder / "f.gguf").ok());
}

TEST(Sha256OfFile, IsThatOfTheStandardsExamples) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [content, digest] : cases) {
    const TemporaryFolder folder;
    const auto partial = Open(folder / "f.gguf");
    ASSERT_TRUE(partial->Begin("", {}).ok());
    ASSERT_TRUE(partial->Append(content).ok());
    const auto got =
        Sha256OfFile(partial->descriptor(), partial->path(), [](int64_t) { return true; });
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(*got, digest);
  }
}

}  // namespace
}  // namespace remontoir
