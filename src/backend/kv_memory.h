// The memory of keys and values: the arena, taken at start, and behind it room for dynamic pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/memory_region.h"
#include "base/status.h"
#include "tensor/kv_layout.h"

namespace remontoir {

class WorkerPool;

// What is taken at start, and what may be asked of the system later.
struct KvMemoryOptions {
  int32_t arena_pages = 0;    // pre-faulted
  int32_t dynamic_pages = 0;  // address space alone, until they are taken
  bool lock = false;          // the arena, if the system lets us
};

struct KvMemoryReport {
  MemoryState arena;
  int64_t dynamic_bytes = 0;       // of dynamic pages that are taken now
  std::vector<std::string> notes;  // why the arena isn't locked, and the cure
};

// The fewest pages whose bytes are whole pages of the system, at most 64: dynamic ranges begin and
// end at multiples of it, so that each has the system's pages under it to itself. page_bytes is a
// multiple of 64.
int32_t KvPageGranule(int64_t page_bytes);

// A page is at base + number * page_bytes, wherever its memory comes from. Pages of the arena are
// numbered from 0; dynamic ones follow at the next multiple of the granule.
class KvMemory {
 public:
  KvMemory() = default;

  // Takes and pre-faults the arena and tries to lock it. dynamic_pages is rounded up to whole
  // granules. An error says how many bytes the system refuses.
  static Result<KvMemory> Take(int64_t page_bytes, const KvMemoryOptions& options, WorkerPool& pool,
                               const MemoryProgress& progress);

  std::byte* base() const { return region_.data(); }
  int64_t page_bytes() const { return page_bytes_; }
  int32_t arena_pages() const { return arena_pages_; }
  KvPageRange dynamic_pages() const { return dynamic_; }
  int32_t granule() const { return granule_; }

  // Whether there is memory behind the page.
  bool Has(KvPageId page) const {
    const int64_t number = Index(page);
    if (number >= 0 && number < arena_pages_) return true;
    const int64_t dynamic = number - Index(dynamic_.begin);
    return dynamic >= 0 && dynamic < dynamic_.count &&
           taken_[static_cast<size_t>(dynamic / granule_)] != 0;
  }

  // Asks the system for the pages of a range and zeroes them; gives them back to it. The range is
  // whole granules of dynamic_pages(), all of them closed before TakeDynamic and taken before
  // GiveBackDynamic: anything else is a bug. ResourceExhausted when the system has none.
  Status TakeDynamic(KvPageRange range);
  void GiveBackDynamic(KvPageRange range);

  const KvMemoryReport& report() const { return report_; }

 private:
  // Checks that the range's granules are all taken, or all not; returns its first.
  size_t CheckRange(KvPageRange range, bool taken) const;

  MemoryRegion region_;
  int64_t page_bytes_ = 0;
  int32_t arena_pages_ = 0;
  int32_t granule_ = 1;
  KvPageRange dynamic_;
  std::vector<uint8_t> taken_;  // by granule of dynamic_
  KvMemoryReport report_;
};

}  // namespace remontoir
