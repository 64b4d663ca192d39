// What the calling thread has cost the system so far: page faults and heap allocations.
#pragma once

#include <cstdint>
#include <optional>

namespace remontoir {

struct PageFaults {
  int64_t minor = 0;  // served from memory
  int64_t major = 0;  // served from a disk

  friend bool operator==(const PageFaults&, const PageFaults&) = default;
};

// Of the calling thread, from the system; about half a microsecond.
PageFaults PageFaultsOfThread();

// Calls of operator new in all its forms, by the calling thread and by all threads that ever ran;
// a few nanoseconds. Nothing when they aren't counted: in a program without
// base/heap_counter.cc, and under ASan and TSan, which bring an operator new of their own.
std::optional<int64_t> HeapAllocationsOfThread();
std::optional<int64_t> HeapAllocationsOfProcess();

// Both together, as figures to subtract. Allocations are 0 where they aren't counted.
struct ThreadCosts {
  int64_t heap_allocations = 0;
  int64_t page_faults = 0;  // minor and major

  friend ThreadCosts operator+(const ThreadCosts& a, const ThreadCosts& b) {
    return {a.heap_allocations + b.heap_allocations, a.page_faults + b.page_faults};
  }
  friend ThreadCosts operator-(const ThreadCosts& a, const ThreadCosts& b) {
    return {a.heap_allocations - b.heap_allocations, a.page_faults - b.page_faults};
  }
  friend bool operator==(const ThreadCosts&, const ThreadCosts&) = default;
};

ThreadCosts CostsOfThread();

}  // namespace remontoir
