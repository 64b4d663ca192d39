// Facts about the cache of packed weights: what was stored comes back whole or not at all.
#include "backend/repack_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/worker_pool.h"
#include "tests/support/temporary_folder.h"

namespace remontoir {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ContentHash kKey = {1, 2};
constexpr int64_t kHeaderBytes = 64;
constexpr int64_t kIndexEntryBytes = 24;

using Parts = std::vector<std::vector<std::byte>>;

Parts PartsOf(const std::vector<size_t>& sizes, uint64_t seed = 1) {
  const CounterRandom random(seed, 3);
  Parts parts;
  uint64_t drawn = 0;
  for (const size_t size : sizes) {
    auto& part = parts.emplace_back(size);
    for (std::byte& byte : part) byte = static_cast<std::byte>(random.Bits(drawn++) >> 20);
  }
  return parts;
}

// One byte, whole and broken chunks, nothing at all.
const Parts& SomeParts() {
  static const Parts parts = PartsOf({1, 0, 64, 5000, (256 << 10) + 1, 2 * (256 << 10)});
  return parts;
}

class RepackCacheTest : public testing::Test {
 protected:
  RepackCache Cache(int64_t bytes_max = int64_t{1} << 30) const {
    return RepackCache({folder_.path(), bytes_max});
  }

  Status Store(const RepackCache& cache, const ContentHash& key, const Parts& parts) {
    const std::vector<std::span<const std::byte>> spans(parts.begin(), parts.end());
    return cache.Store(key, spans, pool_);
  }

  // Into parts of these parts' sizes; what came is in loaded_.
  Status Load(const RepackCache& cache, const ContentHash& key, const Parts& like) {
    loaded_ = like;
    for (auto& part : loaded_) std::fill(part.begin(), part.end(), std::byte{0xee});
    const std::vector<std::span<std::byte>> spans(loaded_.begin(), loaded_.end());
    return cache.Load(key, spans, pool_, nullptr);
  }

  std::string NameOf(const ContentHash& key) const {
    return fs::path(Cache().PathOf(key)).filename().string();
  }

  TemporaryFolder folder_;
  WorkerPool pool_{2};
  Parts loaded_;
};

TEST_F(RepackCacheTest, GivesBackWhatWasStored) {
  const RepackCache cache = Cache();
  EXPECT_EQ(Load(cache, kKey, SomeParts()).code(), StatusCode::kNotFound);
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  const Status status = Load(cache, kKey, SomeParts());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(loaded_, SomeParts());
  EXPECT_THAT(folder_.Files(), ElementsAre(kKey.Hex() + ".panels"));
  EXPECT_EQ(Load(cache, {1, 3}, SomeParts()).code(), StatusCode::kNotFound);

  std::vector<size_t> done;
  const std::vector<std::span<std::byte>> spans(loaded_.begin(), loaded_.end());
  ASSERT_TRUE(cache.Load(kKey, spans, pool_, [&](size_t n) { done.push_back(n); }).ok());
  EXPECT_EQ(done.back(), SomeParts().size());
}

TEST_F(RepackCacheTest, FoldersAreMadeWhenSomethingIsStored) {
  const RepackCache cache({folder_ / "a/b", int64_t{1} << 30});
  EXPECT_EQ(Load(cache, kKey, SomeParts()).code(), StatusCode::kNotFound);
  EXPECT_THAT(folder_.Files(), IsEmpty());
  EXPECT_TRUE(Store(cache, kKey, SomeParts()).ok());
  EXPECT_TRUE(Load(cache, kKey, SomeParts()).ok());
}

// Where a file's parts begin and end, as the layout promises.
std::vector<int64_t> Edges(const Parts& parts) {
  int64_t end = kHeaderBytes + kIndexEntryBytes * std::ssize(parts);
  std::vector<int64_t> edges = {0, kHeaderBytes, end};
  for (const auto& part : parts) {
    const int64_t begin = (end + 63) / 64 * 64;
    end = begin + std::ssize(part);
    edges.push_back(begin);
    edges.push_back(end);
  }
  return edges;
}

TEST_F(RepackCacheTest, NoticesEveryDamagedByte) {
  const RepackCache cache = Cache();
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  const std::string whole = ReadFile(cache.PathOf(kKey));
  const std::vector<int64_t> edges = Edges(SomeParts());
  ASSERT_EQ(std::ssize(whole), edges.back());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < edges[2]; ++i) places.push_back(i);  // header and index
  for (size_t part = 0; part < SomeParts().size(); ++part) {
    const int64_t begin = edges[3 + 2 * part];
    const int64_t end = edges[4 + 2 * part];
    if (begin == end) continue;
    places.insert(places.end(), {begin, (begin + end) / 2, end - 1});
  }
  for (const int64_t place : places) {
    std::string damaged = whole;
    damaged[static_cast<size_t>(place)] = static_cast<char>(damaged[place] ^ 0x10);
    folder_.Write(NameOf(kKey), damaged);
    const Status status = Load(cache, kKey, SomeParts());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << "byte " << place;
    EXPECT_THAT(status.message(), HasSubstr(NameOf(kKey)));
  }
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  EXPECT_TRUE(Load(cache, kKey, SomeParts()).ok());
  EXPECT_EQ(loaded_, SomeParts());
}

TEST_F(RepackCacheTest, NoticesEveryOtherLength) {
  const RepackCache cache = Cache();
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  const std::string whole = ReadFile(cache.PathOf(kKey));
  for (const int64_t edge : Edges(SomeParts())) {
    for (const int64_t length : {edge - 1, edge, edge + 1}) {
      if (length < 0 || length == std::ssize(whole)) continue;
      std::string other = whole;
      other.resize(static_cast<size_t>(length));
      folder_.Write(NameOf(kKey), other);
      EXPECT_EQ(Load(cache, kKey, SomeParts()).code(), StatusCode::kInvalidArgument) << length;
    }
  }
}

TEST_F(RepackCacheTest, NeverUsesAForeignFile) {
  const RepackCache cache = Cache();
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  const std::string whole = ReadFile(cache.PathOf(kKey));
  std::string next_version = whole;
  ++next_version[8];
  const ContentHash other_key = {7, 7};
  const Parts fewer(SomeParts().begin(), SomeParts().end() - 1);
  Parts swapped = SomeParts();
  std::swap(swapped[4], swapped[5]);
  const struct {
    const char* name;
    ContentHash key;
    std::string content;
    Parts parts;
    const char* says;
  } kCases[] = {
      {"renamed", other_key, whole, SomeParts(), "header or index"},
      {"another version", kKey, next_version, SomeParts(), "of another version"},
      {"text", kKey, std::string(whole.size(), 'x'), SomeParts(), "no cache file"},
      {"of more parts", kKey, whole, fewer, "of another length"},
      {"of other parts", kKey, whole, swapped, ""},
      {"empty", kKey, "", SomeParts(), "of another length"},
  };
  for (const auto& test : kCases) {
    folder_.Write(NameOf(test.key), test.content);
    const Status status = Load(cache, test.key, test.parts);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << test.name;
    EXPECT_THAT(status.message(), HasSubstr(test.says)) << test.name;
  }
}

TEST_F(RepackCacheTest, OpensOnlyRegularFiles) {
  const RepackCache cache = Cache();
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  const ContentHash link = {1, 1};
  const ContentHash pipe = {2, 2};
  const ContentHash directory = {3, 3};
  fs::create_symlink(cache.PathOf(kKey), cache.PathOf(link));
  ASSERT_EQ(mkfifo(cache.PathOf(pipe).c_str(), 0600), 0);
  fs::create_directory(cache.PathOf(directory));
  for (const ContentHash& key : {link, pipe, directory}) {
    const Status status = Load(cache, key, SomeParts());
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.code(), StatusCode::kNotFound);
  }
  EXPECT_TRUE(Store(cache, link, SomeParts()).ok());  // takes the link's place
  EXPECT_TRUE(Store(cache, pipe, SomeParts()).ok());
  EXPECT_FALSE(Store(cache, directory, SomeParts()).ok());
  EXPECT_EQ(folder_.Files().size(), 3u);  // nothing unfinished among them
}

TEST_F(RepackCacheTest, WhatWasNotUsedForLongestMakesRoom) {
  const Parts parts = PartsOf({100'000});
  const RepackCache cache = Cache(350'000);  // three of them
  const ContentHash a = {1, 0};
  const ContentHash b = {2, 0};
  const ContentHash c = {3, 0};
  const ContentHash d = {4, 0};
  const auto now = fs::file_time_type::clock::now();
  int age = 30;
  for (const ContentHash& key : {a, b, c}) {
    ASSERT_TRUE(Store(cache, key, parts).ok());
    fs::last_write_time(cache.PathOf(key), now - std::chrono::hours(age--));
  }
  folder_.Write("notes.txt", std::string(1'000'000, 'x'));
  folder_.Write("x" + kKey.Hex() + ".panels", std::string(1'000'000, 'x'));
  ASSERT_TRUE(Load(cache, a, parts).ok());
  ASSERT_TRUE(Store(cache, d, parts).ok());
  EXPECT_THAT(folder_.Files(),
              testing::UnorderedElementsAre(NameOf(a), NameOf(c), NameOf(d), "notes.txt",
                                            "x" + kKey.Hex() + ".panels"));
}

TEST_F(RepackCacheTest, ImpossiblyLargeFilesDontUpsetTheCount) {
  const RepackCache cache = Cache();
  for (uint64_t i = 0; i < 3; ++i) {
    folder_.Write(NameOf({i, 9}), "");
    // As long as the file system lets a file with nothing in it be.
    for (int bits = 62; bits > 30 && truncate(cache.PathOf({i, 9}).c_str(), int64_t{1} << bits);) {
      --bits;
    }
  }
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  EXPECT_THAT(folder_.Files(), ElementsAre(NameOf(kKey)));
}

TEST_F(RepackCacheTest, RefusesWhatIsLargerThanItsBound) {
  const Parts parts = PartsOf({100'000});
  const RepackCache cache = Cache(100'000);  // but for the header
  const int64_t sizes[] = {100'000};
  EXPECT_FALSE(cache.MayHold(sizes));
  EXPECT_EQ(Store(cache, kKey, parts).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(folder_.Files(), IsEmpty());
  EXPECT_FALSE(RepackCache({}).MayHold(sizes));
}

TEST_F(RepackCacheTest, RemovesUnfinishedFilesUnlessTheyAreBeingWritten) {
  const RepackCache cache = Cache();
  const std::string left = NameOf({5, 5}) + ".tmp.abcdef";
  const std::string written = NameOf({6, 6}) + ".tmp.abcdef";
  folder_.Write(left, "half");
  folder_.Write(written, "half");
  const int descriptor = open((folder_ / written).c_str(), O_RDWR);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  ASSERT_TRUE(Store(cache, kKey, SomeParts()).ok());
  EXPECT_THAT(folder_.Files(), testing::UnorderedElementsAre(NameOf(kKey), written));
  close(descriptor);
}

TEST_F(RepackCacheTest, SaysWhatKeepsItFromWriting) {
  folder_.Write("file", "in the way");
  const RepackCache below_a_file({folder_ / "file/cache", int64_t{1} << 30});
  EXPECT_FALSE(Load(below_a_file, kKey, SomeParts()).ok());
  const Status status = Store(below_a_file, kKey, SomeParts());
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "file/cache"));
}

// A bound on the length of files stands in for a full disk.
TEST_F(RepackCacheTest, AFullDiskLeavesWhatWasThere) {
  const RepackCache cache = Cache();
  const Parts small = PartsOf({1000});
  ASSERT_TRUE(Store(cache, kKey, small).ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit narrow = {50'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &narrow), 0);
  const Status status = Store(cache, kKey, SomeParts());
  const Status other = Store(cache, {8, 8}, SomeParts());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kIoError) << status.message();
  EXPECT_EQ(other.code(), StatusCode::kIoError);
  EXPECT_THAT(folder_.Files(), ElementsAre(NameOf(kKey)));
  EXPECT_TRUE(Load(cache, kKey, small).ok());
}

TEST_F(RepackCacheTest, WritersAtOnceLeaveOneGoodFileAndReadersSeeNoOther) {
  const RepackCache cache = Cache();
  std::atomic<int> writing{2};
  const auto write = [&] {
    WorkerPool pool(1);
    const std::vector<std::span<const std::byte>> spans(SomeParts().begin(), SomeParts().end());
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(cache.Store(kKey, spans, pool).ok());
    --writing;
  };
  std::thread first(write);
  std::thread second(write);
  while (writing > 0) {
    const Status status = Load(cache, kKey, SomeParts());
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status.message();
  }
  first.join();
  second.join();
  EXPECT_THAT(folder_.Files(), ElementsAre(NameOf(kKey)));
  EXPECT_TRUE(Load(cache, kKey, SomeParts()).ok());
}

TEST(ContentHash, IsTheSameForAnyNumberOfWorkersAndAnotherForAnyOtherBytes) {
  Parts parts = SomeParts();
  WorkerPool one(1);
  WorkerPool three(3);
  const auto hash = [&](WorkerPool& pool) {
    return HashParts(std::vector<std::span<const std::byte>>(parts.begin(), parts.end()), pool);
  };
  const std::vector<ContentHash> hashes = hash(one);
  EXPECT_EQ(hash(three), hashes);
  EXPECT_EQ(hashes[1], HashBytes({}));
  for (const size_t place : {size_t{0}, parts[5].size() / 2, parts[5].size() - 1}) {
    parts[5][place] ^= std::byte{1};
    const std::vector<ContentHash> others = hash(three);
    EXPECT_NE(others[5], hashes[5]);
    EXPECT_EQ(others[4], hashes[4]);
    parts[5][place] ^= std::byte{1};
  }
  EXPECT_EQ((ContentHash{0x1234, 0xab}).Hex(), "00000000000000ab0000000000001234");
}

}  // namespace
}  // namespace remontoir
