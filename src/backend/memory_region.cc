// Anonymous mappings, over-allocated so that the useful part starts on a huge page.
#include "backend/memory_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/worker_pool.h"

namespace remontoir {

MemoryRegion::~MemoryRegion() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept { *this = std::move(other); }

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Result<MemoryRegion> MemoryRegion::Take(int64_t bytes, const char* purpose) {
  REM_CHECK(bytes >= 0, "a size");
  const auto refused = [&](const char* why) {
    return ResourceExhausted(std::string(purpose) + ": the system refuses " +
                             std::to_string(bytes) + " bytes: " + why);
  };
  if (bytes > std::numeric_limits<int64_t>::max() - 2 * kAlignment) return refused("too many");
  const int64_t size = std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  const int64_t mapping_bytes = size + kAlignment;
  void* mapping = mmap(nullptr, static_cast<size_t>(mapping_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return refused(std::strerror(errno));
  const auto start = reinterpret_cast<uintptr_t>(mapping);
  auto* data = static_cast<std::byte*>(mapping) + (kAlignment - start % kAlignment) % kAlignment;
  // Best effort: without huge pages everything works, with more misses in the page tables.
  (void)madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
  return MemoryRegion(mapping, mapping_bytes, data, size);
}

void MemoryRegion::Prefault(WorkerPool& pool) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const auto chunks = static_cast<int32_t>(size_bytes_ / kAlignment);
  pool.ParallelFor(chunks, [this, page](int32_t chunk) {
    volatile std::byte* begin = data_ + chunk * kAlignment;
    for (int64_t offset = 0; offset < kAlignment; offset += page) begin[offset] = std::byte{0};
  });
}

}  // namespace remontoir
