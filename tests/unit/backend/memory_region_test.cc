// Facts about MemoryRegion: aligned, zeroed, pre-faulted, locked or with a reason, and a refusal is
// an error.
#include "backend/memory_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "base/worker_pool.h"

namespace remontoir {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPage = MemoryRegion::kSystemPageBytes;

TEST(MemoryRegion, IsAlignedToHugePagesAndZeroed) {
  WorkerPool pool(2);
  for (int64_t bytes : {int64_t{0}, int64_t{1}, MemoryRegion::kAlignment + 1}) {
    Result<MemoryRegion> region = MemoryRegion::Take(bytes, "a test");
    ASSERT_TRUE(region.ok());
    EXPECT_GE(region->size_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % MemoryRegion::kAlignment, 0u);
    region->Prefault(pool);
    for (int64_t i = 0; i < region->size_bytes(); i += 4096) {
      ASSERT_EQ(region->data()[i], std::byte{0});
    }
    region->data()[region->size_bytes() - 1] = std::byte{1};
  }
}

TEST(MemoryRegion, MovesItsMapping) {
  MemoryRegion region = *MemoryRegion::Take(10, "a test");
  region.data()[0] = std::byte{5};
  std::byte* data = region.data();
  MemoryRegion other(std::move(region));
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.data()[0], std::byte{5});
  other = *MemoryRegion::Take(10, "a test");
  EXPECT_EQ(other.data()[0], std::byte{0});
}

TEST(MemoryRegion, RefusalsNameThePurpose) {
  for (int64_t bytes : {int64_t{1} << 60, std::numeric_limits<int64_t>::max()}) {
    const Result<MemoryRegion> region = MemoryRegion::Take(bytes, "KV pages");
    EXPECT_EQ(region.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(region.status().message(), ::testing::HasSubstr("KV pages"));
  }
}

// Pages of [data + offset, + bytes) that have memory behind them.
int64_t PagesThere(const MemoryRegion& region, int64_t offset, int64_t bytes) {
  std::vector<unsigned char> there(static_cast<size_t>(bytes / kPage));
  EXPECT_EQ(mincore(region.data() + offset, static_cast<size_t>(bytes), there.data()), 0);
  return std::ranges::count_if(there, [](unsigned char page) { return (page & 1) != 0; });
}

TEST(MemoryRegion, PrefaultTouchesEveryPageAndSaysHowFarItIs) {
  WorkerPool pool(2);
  // More than a step of progress, with a last chunk that is no whole huge page.
  const int64_t bytes = 130 * kMiB + kPage;
  MemoryRegion region = *MemoryRegion::TakeWithReserve(bytes, 0, "a test");
  EXPECT_EQ(PagesThere(region, 0, bytes), 0);
  EXPECT_EQ(region.State().state, MemoryBacking::kPlain);
  std::vector<int64_t> dones;
  region.Prefault(pool, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, bytes);
    dones.push_back(done);
  });
  EXPECT_EQ(PagesThere(region, 0, bytes), bytes / kPage);
  EXPECT_GT(dones.size(), 1u);
  EXPECT_TRUE(std::ranges::is_sorted(dones));
  EXPECT_EQ(dones.back(), bytes);
  const MemoryState state = region.State();
  EXPECT_EQ(state.state, MemoryBacking::kPrefaulted);
  EXPECT_EQ(state.bytes, bytes);
  EXPECT_EQ(state.prefaulted_bytes, bytes);
  EXPECT_EQ(state.locked_bytes, 0);
  EXPECT_LE(state.huge_bytes, bytes);
}

// --- Locking. What changes the process's rights happens in a process of its own.

// After it only the limit counts, for root too.
void DropLockRights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) _exit(101);
  data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  if (syscall(SYS_capset, &header, data) != 0) _exit(102);
}

// Lowers the limits; false where the hard one is below `hard` already.
bool SetLockLimits(int64_t soft, int64_t hard) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_max < static_cast<rlim_t>(hard)) {
    return false;
  }
  limit = {static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

int64_t HardLockLimit() {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_max, INT64_MAX));
}

// The word after "VmLck:", in bytes: what the system says is locked.
int64_t LockedBytesOfProcess() {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  char line[256];
  long long kib = -1;
  while (status != nullptr && std::fgets(line, sizeof(line), status) != nullptr) {
    if (std::sscanf(line, "VmLck: %lld kB", &kib) == 1) break;
  }
  if (status != nullptr) std::fclose(status);
  return kib * 1024;
}

// Exit codes say which expectation failed: 0 is all well.
[[noreturn]] void LockBelowTheLimit() {
  DropLockRights();
  if (!SetLockLimits(0, 4 * kMiB)) _exit(1);
  WorkerPool pool(1);
  MemoryRegion region = *MemoryRegion::Take(4 * kMiB, "a test");
  region.Prefault(pool);
  if (!region.Lock().ok()) _exit(2);
  const MemoryState state = region.State();
  if (state.state != MemoryBacking::kLocked || state.locked_bytes != 4 * kMiB) _exit(3);
  if (LockedBytesOfProcess() != 4 * kMiB) _exit(4);
  _exit(0);
}

[[noreturn]] void LockAboveTheLimit(int64_t bytes, int64_t limit) {
  DropLockRights();
  if (!SetLockLimits(0, limit)) _exit(1);
  WorkerPool pool(1);
  MemoryRegion region = *MemoryRegion::Take(bytes, "a test");
  region.Prefault(pool);
  const Status status = region.Lock();
  if (status.code() != StatusCode::kResourceExhausted) _exit(2);
  const MemoryState state = region.State();
  if (state.state != MemoryBacking::kPrefaulted || state.locked_bytes != 0) _exit(3);
  if (state.prefaulted_bytes != bytes || LockedBytesOfProcess() != 0) _exit(4);
  std::fprintf(stderr, "%s\n", status.message().c_str());
  _exit(0);
}

TEST(MemoryRegionDeathTest, LocksASmallRegionUpToTheHardLimit) {
  if (HardLockLimit() < 4 * kMiB) GTEST_SKIP() << "4 MiB can't be locked here";
  EXPECT_EXIT(LockBelowTheLimit(), testing::ExitedWithCode(0), "");
}

TEST(MemoryRegionDeathTest, WhatCanNotBeLockedStaysPrefaultedAndNamesTheCure) {
  constexpr int64_t kLimit = 64 << 10;
  if (HardLockLimit() < kLimit) GTEST_SKIP() << "the limit is below the test's own";
  const char* const kCure =
      "2 MiB can't be locked.*this process may lock 64 KiB.*ulimit -l unlimited.*"
      "LimitMEMLOCK=infinity.*--ulimit memlock=-1";
  EXPECT_EXIT(LockAboveTheLimit(2 * kMiB, kLimit), testing::ExitedWithCode(0), kCure);
}

TEST(MemoryRegionDeathTest, APartIsNotKeptLocked) {
  if (HardLockLimit() < 4 * kMiB) GTEST_SKIP() << "4 MiB can't be locked here";
  EXPECT_EXIT(LockAboveTheLimit(6 * kMiB, 4 * kMiB), testing::ExitedWithCode(0),
              "6 MiB can't be locked.*this process may lock 4 MiB");
}

// --- The reserve

TEST(MemoryRegion, ReserveIsMappedZeroedAndGivenBack) {
  MemoryRegion region = *MemoryRegion::TakeWithReserve(3 * kPage, 10 * kPage, "a test");
  EXPECT_EQ(region.size_bytes(), 3 * kPage);
  EXPECT_EQ(region.reserve_bytes(), 10 * kPage);
  region.data()[3 * kPage - 1] = std::byte{7};
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(region.MapReserve(5 * kPage, 4 * kPage).ok());
    EXPECT_EQ(PagesThere(region, 5 * kPage, 4 * kPage), 4);
    for (int64_t i = 5 * kPage; i < 9 * kPage; ++i) ASSERT_EQ(region.data()[i], std::byte{0});
    region.data()[5 * kPage] = std::byte{1};
    region.data()[9 * kPage - 1] = std::byte{1};
    region.UnmapReserve(5 * kPage, 4 * kPage);
    EXPECT_EQ(PagesThere(region, 5 * kPage, 4 * kPage), 0);
  }
  EXPECT_EQ(region.data()[3 * kPage - 1], std::byte{7});
}

TEST(MemoryRegionDeathTest, ReserveIsClosed) {
  MemoryRegion region = *MemoryRegion::TakeWithReserve(0, 4 * kPage, "a test");
  ASSERT_TRUE(region.MapReserve(0, 2 * kPage).ok());
  region.data()[2 * kPage - 1] = std::byte{1};
  EXPECT_DEATH(region.data()[2 * kPage] = std::byte{1}, "");
  region.UnmapReserve(0, 2 * kPage);
  EXPECT_DEATH(region.data()[0] = std::byte{1}, "");
  EXPECT_DEATH((void)region.MapReserve(3 * kPage, 2 * kPage), "a part of the reserve");
}

TEST(HugeBytesIn, CountsWhatOverlapsTheRange) {
  const char* const kSmaps =
      "10000000-10800000 rw-p 00000000 00:00 0 \n"
      "Size:               8192 kB\n"
      "AnonHugePages:      6144 kB\n"
      "Locked:                0 kB\n"
      "10800000-10c00000 ---p 00000000 00:00 0 \n"
      "AnonHugePages:         0 kB\n"
      "20000000-20400000 rw-p 00000000 fd:00 12   /a file with AnonHugePages: 99 kB\n"
      "AnonHugePages:      4096 kB\n";
  const struct {
    uintptr_t begin, end;
    int64_t bytes;
  } kCases[] = {
      {0x10000000, 0x10800000, 6 * kMiB},
      {0x10000000, 0x10200000, 2 * kMiB},  // of a mapping that is larger: at most the part
      {0x10000000, 0x30000000, 10 * kMiB},
      {0x10800000, 0x10c00000, 0},
      {0x30000000, 0x40000000, 0},
  };
  for (const auto& c : kCases) {
    std::istringstream smaps(kSmaps);
    EXPECT_EQ(HugeBytesIn(smaps, c.begin, c.end), c.bytes) << std::hex << c.begin;
  }
}

}  // namespace
}  // namespace remontoir
