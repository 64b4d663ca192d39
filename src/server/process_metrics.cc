// Reads getrusage and /proc.
#include "server/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/check.h"
#include "base/thread_counters.h"

namespace remontoir {
namespace {

int64_t Microseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
}

}  // namespace

ProcessMetrics::ProcessMetrics(const std::string& version, int64_t started) {
  start.Set(static_cast<double>(started));
  AddInfo({"remontoir_build_info", "The server's version"}, {{"version", version}});
  if (HeapAllocationsOfProcess().has_value()) {
    heap_allocations_ =
        &AddCounter({"remontoir_heap_allocations_total", "Calls of operator new of all threads"});
  }
  Update();
}

void ProcessMetrics::Update() {
  rusage usage = {};
  REM_CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage of the own process failed");
  cpu_us.Set(Microseconds(usage.ru_utime) + Microseconds(usage.ru_stime));
  page_faults.At(0).Set(usage.ru_minflt);
  page_faults.At(1).Set(usage.ru_majflt);
  // Without /proc the sizes stay 0.
  std::ifstream statm("/proc/self/statm");
  int64_t mapped_pages = 0;
  int64_t resident_pages = 0;
  if (statm >> mapped_pages >> resident_pages) {
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    virtual_bytes.Set(static_cast<double>(mapped_pages) * page_bytes);
    resident_bytes.Set(static_cast<double>(resident_pages) * page_bytes);
  }
  if (heap_allocations_ != nullptr) heap_allocations_->Set(*HeapAllocationsOfProcess());
}

}  // namespace remontoir
