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

}  // namespace remontoir
