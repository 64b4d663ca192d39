// Anonymous mappings, over-allocated so that the useful part starts on a huge page.
#include "backend/memory_region.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/worker_pool.h"

namespace remontoir {
namespace {

// Between two calls of a progress; enough work that waking the workers doesn't count.
constexpr int64_t kStepBytes = int64_t{64} << 20;

// The system call itself: sanitizers turn mlock() and munlock() into nothing, and what we report
// must be true there too.
bool LockBytes(const std::byte* begin, int64_t bytes) {
  return syscall(SYS_mlock, begin, static_cast<size_t>(bytes)) == 0;
}
void UnlockBytes(const std::byte* begin, int64_t bytes) {
  (void)syscall(SYS_munlock, begin, static_cast<size_t>(bytes));
}

// "64 KiB", "1440 MiB"
std::string Amount(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return bytes % kMiB == 0 || bytes > 100 * kMiB ? std::to_string(bytes / kMiB) + " MiB"
                                                 : std::to_string(bytes / 1024) + " KiB";
}

}  // namespace

std::string_view Name(MemoryBacking backing) {
  switch (backing) {
    case MemoryBacking::kLocked: return "locked";
    case MemoryBacking::kPrefaulted: return "prefaulted";
    case MemoryBacking::kPlain: break;
  }
  return "plain";
}

MemoryRegion::~MemoryRegion() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept { *this = std::move(other); }

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(reserve_bytes_, other.reserve_bytes_);
  std::swap(prefaulted_bytes_, other.prefaulted_bytes_);
  std::swap(locked_bytes_, other.locked_bytes_);
  return *this;
}

Result<MemoryRegion> MemoryRegion::Take(int64_t bytes, const char* purpose) {
  REM_CHECK(bytes >= 0, "a size");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  const int64_t whole = (std::min(bytes, kMost) + kAlignment - 1) / kAlignment * kAlignment;
  return TakeWithReserve(std::max(whole, kAlignment), 0, purpose);
}

Result<MemoryRegion> MemoryRegion::TakeWithReserve(int64_t bytes, int64_t reserve_bytes,
                                                   const char* purpose) {
  REM_CHECK(bytes >= 0 && reserve_bytes >= 0 && bytes % kSystemPageBytes == 0, "a size");
  const auto refused = [&](const char* why) {
    return ResourceExhausted(std::string(purpose) + ": the system refuses " +
                             std::to_string(bytes) + " bytes: " + why);
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  if (bytes >= kMost || reserve_bytes >= kMost) return refused("too many");
  MemoryRegion region;
  region.mapping_bytes_ = bytes + reserve_bytes + kAlignment;
  void* mapping = mmap(nullptr, static_cast<size_t>(region.mapping_bytes_), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return refused(std::strerror(errno));
  region.mapping_ = mapping;
  const auto start = reinterpret_cast<uintptr_t>(mapping);
  region.data_ = static_cast<std::byte*>(mapping) + (kAlignment - start % kAlignment) % kAlignment;
  region.size_bytes_ = bytes;
  region.reserve_bytes_ = reserve_bytes;
  if (bytes == 0) return region;
  if (mprotect(region.data_, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE) != 0) {
    return refused(std::strerror(errno));
  }
  // Best effort: without huge pages everything works, with more misses in the page tables.
  (void)madvise(region.data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return region;
}

void MemoryRegion::Prefault(WorkerPool& pool, const MemoryProgress& progress) {
  for (int64_t done = 0; done < size_bytes_;) {
    const int64_t step = std::min(kStepBytes, size_bytes_ - done);
    const auto chunks = static_cast<int32_t>((step + kAlignment - 1) / kAlignment);
    pool.ParallelFor(chunks, [this, done, step](int32_t chunk) {
      const int64_t begin = done + chunk * kAlignment;
      const int64_t end = std::min(begin + kAlignment, done + step);
      volatile std::byte* data = data_;
      for (int64_t at = begin; at < end; at += kSystemPageBytes) data[at] = std::byte{0};
    });
    done += step;
    if (progress) progress(done, size_bytes_);
  }
  prefaulted_bytes_ = size_bytes_;
}

Status MemoryRegion::Lock() {
  const int64_t limit = RaiseLockLimit();
  for (int64_t done = 0; done < size_bytes_;) {
    const int64_t step = std::min(kAlignment, size_bytes_ - done);
    if (!LockBytes(data_ + done, step)) {
      const int error = errno;
      // A part would use up the limit and still leave faults.
      if (done > 0) UnlockBytes(data_, done);
      const bool by_limit = error == ENOMEM || error == EPERM || error == EAGAIN;
      return ResourceExhausted(
          Amount(size_bytes_) + " can't be locked in memory: " + std::strerror(error) +
          (by_limit && limit >= 0 ? "; this process may lock " + Amount(limit) : "") +
          ". Raise the limit: `ulimit -l unlimited`, systemd's LimitMEMLOCK=infinity, docker's "
          "--ulimit memlock=-1");
    }
    done += step;
  }
  prefaulted_bytes_ = size_bytes_;
  locked_bytes_ = size_bytes_;
  return Status::Ok();
}

MemoryState MemoryRegion::State() const {
  MemoryState state;
  state.bytes = size_bytes_;
  state.prefaulted_bytes = prefaulted_bytes_;
  state.locked_bytes = locked_bytes_;
  if (size_bytes_ > 0 && locked_bytes_ == size_bytes_) {
    state.state = MemoryBacking::kLocked;
  } else if (size_bytes_ > 0 && prefaulted_bytes_ == size_bytes_) {
    state.state = MemoryBacking::kPrefaulted;
  }
  std::ifstream smaps("/proc/self/smaps");
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  state.huge_bytes = HugeBytesIn(smaps, begin, begin + static_cast<uintptr_t>(size_bytes_));
  return state;
}

Status MemoryRegion::MapReserve(int64_t offset, int64_t bytes) {
  REM_CHECK(offset >= size_bytes_ && bytes > 0 && offset % kSystemPageBytes == 0 &&
                bytes % kSystemPageBytes == 0 && bytes <= size_bytes_ + reserve_bytes_ - offset,
            "a part of the reserve");
  std::byte* begin = data_ + offset;
  void* mapped = mmap(begin, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    // A failed fixed mapping may have unmapped what was there: close it again.
    (void)mmap(begin, static_cast<size_t>(bytes), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return ResourceExhausted("the system refuses " + std::to_string(bytes) +
                             " bytes: " + std::strerror(error));
  }
  std::memset(begin, 0, static_cast<size_t>(bytes));
  return Status::Ok();
}

void MemoryRegion::UnmapReserve(int64_t offset, int64_t bytes) {
  REM_CHECK(offset >= size_bytes_ && bytes > 0 && bytes <= size_bytes_ + reserve_bytes_ - offset,
            "a part of the reserve");
  std::byte* begin = data_ + offset;
  void* closed = mmap(begin, static_cast<size_t>(bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  // With too many mappings for another the memory still goes back, though the space stays open.
  if (closed == MAP_FAILED) (void)madvise(begin, static_cast<size_t>(bytes), MADV_DONTNEED);
}

int64_t RaiseLockLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  if (limit.rlim_cur != limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

int64_t HugeBytesIn(std::istream& smaps, uintptr_t begin, uintptr_t end) {
  int64_t huge_bytes = 0;
  int64_t overlap_bytes = 0;
  std::string line;
  while (std::getline(smaps, line)) {
    unsigned long long first = 0;
    unsigned long long last = 0;
    long long kib = 0;
    char space = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx%c", &first, &last, &space) == 3 && space == ' ') {
      const uintptr_t low = std::max<uintptr_t>(first, begin);
      const uintptr_t high = std::min<uintptr_t>(last, end);
      overlap_bytes = high > low ? static_cast<int64_t>(high - low) : 0;
    } else if (std::sscanf(line.c_str(), "AnonHugePages: %lld kB", &kib) == 1) {
      huge_bytes +=
          std::min<int64_t>(std::clamp<int64_t>(kib, 0, INT64_MAX / 1024) * 1024, overlap_bytes);
    }
  }
  return huge_bytes;
}

}  // namespace remontoir
