// One region: the arena in front, the closed space of dynamic pages behind it.
#include "backend/kv_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace remontoir {
namespace {

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

int32_t KvPageGranule(int64_t page_bytes) {
  REM_CHECK(page_bytes > 0, "a page has bytes");
  constexpr int64_t kSystemPage = MemoryRegion::kSystemPageBytes;
  return static_cast<int32_t>(kSystemPage / std::gcd(page_bytes, kSystemPage));
}

Result<KvMemory> KvMemory::Take(int64_t page_bytes, const KvMemoryOptions& options,
                                WorkerPool& pool, const MemoryProgress& progress) {
  if (options.arena_pages < 0 || options.dynamic_pages < 0 ||
      int64_t{options.arena_pages} + options.dynamic_pages < 1) {
    return InvalidArgument("KV memory has at least one page");
  }
  KvMemory memory;
  memory.page_bytes_ = page_bytes;
  memory.granule_ = KvPageGranule(page_bytes);
  const int64_t arena = RoundUp(options.arena_pages, memory.granule_);
  const int64_t dynamic = RoundUp(options.dynamic_pages, memory.granule_);
  if (arena + dynamic > std::numeric_limits<int32_t>::max() ||
      arena + dynamic > std::numeric_limits<int64_t>::max() / page_bytes) {
    return ResourceExhausted("KV pages: more bytes than an address can count");
  }
  memory.arena_pages_ = options.arena_pages;
  memory.dynamic_ = {KvPageId(static_cast<int32_t>(arena)), static_cast<int32_t>(dynamic)};
  memory.taken_.resize(static_cast<size_t>(dynamic / memory.granule_));
  // The pages between the arena's last and the next multiple of the granule stay closed.
  const int64_t bytes = RoundUp(options.arena_pages * page_bytes, MemoryRegion::kSystemPageBytes);
  REM_ASSIGN_OR_RETURN(
      memory.region_,
      MemoryRegion::TakeWithReserve(bytes, (arena + dynamic) * page_bytes - bytes, "KV pages"));
  memory.region_.Prefault(pool, progress);
  if (options.lock && arena > 0) {
    const Status locked = memory.region_.Lock();
    if (!locked.ok()) {
      memory.report_.notes.push_back("the KV arena may be swapped out: " + locked.message());
    }
  }
  memory.report_.arena = memory.region_.State();
  return memory;
}

Status KvMemory::TakeDynamic(KvPageRange range) {
  const size_t first = CheckRange(range, false);
  const int64_t bytes = range.count * page_bytes_;
  REM_RETURN_IF_ERROR(
      region_.MapReserve(Index(range.begin) * page_bytes_, bytes).WithContext("dynamic KV pages"));
  std::fill_n(taken_.begin() + static_cast<int64_t>(first), range.count / granule_, uint8_t{1});
  report_.dynamic_bytes += bytes;
  return Status::Ok();
}

void KvMemory::GiveBackDynamic(KvPageRange range) {
  const size_t first = CheckRange(range, true);
  const int64_t bytes = range.count * page_bytes_;
  region_.UnmapReserve(Index(range.begin) * page_bytes_, bytes);
  std::fill_n(taken_.begin() + static_cast<int64_t>(first), range.count / granule_, uint8_t{0});
  report_.dynamic_bytes -= bytes;
}

size_t KvMemory::CheckRange(KvPageRange range, bool taken) const {
  const int64_t offset = int64_t{Index(range.begin)} - Index(dynamic_.begin);
  REM_CHECK(range.count > 0 && offset >= 0 && offset <= dynamic_.count - range.count &&
                offset % granule_ == 0 && range.count % granule_ == 0,
            "whole granules of dynamic pages");
  const auto first = static_cast<size_t>(offset / granule_);
  const auto end = first + static_cast<size_t>(range.count / granule_);
  for (size_t i = first; i < end; ++i) {
    REM_CHECK((taken_[i] != 0) == taken, taken ? "dynamic pages that are out" : "pages not out");
  }
  return first;
}

}  // namespace remontoir
