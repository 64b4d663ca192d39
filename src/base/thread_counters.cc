// Asks getrusage, and the heap counter where the program has one.
#include "base/thread_counters.h"

#include <sys/resource.h>

#include "base/check.h"
#include "base/heap_counter.h"

namespace remontoir {

PageFaults PageFaultsOfThread() {
  rusage usage = {};
  REM_CHECK(getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage of the own thread failed");
  return {.minor = usage.ru_minflt, .major = usage.ru_majflt};
}

std::optional<int64_t> HeapAllocationsOfThread() {
  if (heap_counter::OfThread == nullptr) return std::nullopt;
  return heap_counter::OfThread();
}

std::optional<int64_t> HeapAllocationsOfProcess() {
  if (heap_counter::OfProcess == nullptr) return std::nullopt;
  return heap_counter::OfProcess();
}

ThreadCosts CostsOfThread() {
  const PageFaults faults = PageFaultsOfThread();
  return {HeapAllocationsOfThread().value_or(0), faults.minor + faults.major};
}

}  // namespace remontoir
