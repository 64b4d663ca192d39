// Memory straight from the system: zeroed, aligned to huge pages, pre-faulted and locked on demand,
// given back whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string_view>

#include "base/status.h"

namespace remontoir {

class WorkerPool;

// Bytes of a region that were gone through so far, and all of them.
using MemoryProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// What a touch of memory may cost: plain memory faults once a page; pre-faulted memory doesn't,
// unless the system swaps it out; locked memory never does.
enum class MemoryBacking : uint8_t { kPlain, kPrefaulted, kLocked };
std::string_view Name(MemoryBacking backing);  // "plain", "prefaulted", "locked"

struct MemoryState {
  MemoryBacking state = MemoryBacking::kPlain;  // what holds for every byte
  int64_t bytes = 0;                            // all of them
  int64_t prefaulted_bytes = 0;                 // touched at start; locked ones are among them
  int64_t locked_bytes = 0;
  int64_t huge_bytes = 0;  // in huge pages, when the state was read
};

// Pages come into being when first touched, huge ones where the system gives them. Address space
// before and behind is closed: a stray access is a crash, not a neighbour's data.
class MemoryRegion {
 public:
  static constexpr int64_t kAlignment = int64_t{2} << 20;
  static constexpr int64_t kSystemPageBytes = 4096;

  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;

  // At least `bytes`. `purpose` names the memory in the error when the system refuses.
  static Result<MemoryRegion> Take(int64_t bytes, const char* purpose);

  // `bytes`, a multiple of kSystemPageBytes, and right behind them `reserve_bytes` of closed
  // address space: no memory is behind it, and nothing may touch it, until MapReserve.
  static Result<MemoryRegion> TakeWithReserve(int64_t bytes, int64_t reserve_bytes,
                                              const char* purpose);

  // Touches every page, on all workers, so that no later access faults. Progress is called on the
  // calling thread.
  void Prefault(WorkerPool& pool, const MemoryProgress& progress = nullptr);

  // Keeps the whole region in memory, whatever else the system needs, or leaves all of it unlocked:
  // the error says what stands in the way and what its cure is. The process's soft limit is raised
  // to its hard one first. Faults in what isn't yet.
  Status Lock();

  // Reads how many huge pages there are: some milliseconds, for after the start.
  MemoryState State() const;

  // Opens a part of the reserve: asks the system for its memory, faults it in and zeroes it, in
  // small pages and on the calling thread. Offset (from data()) and bytes are multiples of
  // kSystemPageBytes. An error leaves it closed.
  Status MapReserve(int64_t offset, int64_t bytes);
  // Closes what MapReserve opened: its memory is the system's again.
  void UnmapReserve(int64_t offset, int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }  // without the reserve
  int64_t reserve_bytes() const { return reserve_bytes_; }

 private:
  // What lies where; data == nullptr: nothing was taken.
  void* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
  int64_t reserve_bytes_ = 0;
  int64_t prefaulted_bytes_ = 0;
  int64_t locked_bytes_ = 0;
};

// The process's soft limit on locked bytes, after it was raised to the hard one where that may be.
// -1: unlimited.
int64_t RaiseLockLimit();

// Bytes of huge pages in [begin, end), by the text of /proc/PID/smaps. A mapping that lies only
// partly in it counts up to that part.
int64_t HugeBytesIn(std::istream& smaps, uintptr_t begin, uintptr_t end);

}  // namespace remontoir
