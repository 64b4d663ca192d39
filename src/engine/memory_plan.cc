// The KV share of memory, and the system's word on what is free.
#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "tensor/kv_layout.h"

namespace remontoir {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string GiB(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

// The number after the word `key` in a file of words; with an empty key the file's first number.
// -1 if there is none ("max" in a control group without a limit).
int64_t ReadNumber(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  while (!key.empty() && file >> word && word != key) {
  }
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

Result<MemoryPlan> PlanMemory(const MemoryPlanInputs& inputs) {
  const int64_t pages_each = (int64_t{inputs.context_max} + kKvPageTokens - 1) / kKvPageTokens;
  const int64_t full_pages = pages_each * inputs.sequences_max;
  int64_t pages = full_pages;
  if (inputs.kv_memory_bytes > 0) {
    pages = std::min(full_pages, inputs.kv_memory_bytes / inputs.page_bytes);
  } else {
    pages = std::min(full_pages, inputs.free_bytes / 4 / inputs.page_bytes);
  }
  const int64_t bytes = pages * inputs.page_bytes;
  // Below a page a sequence nothing can run side by side.
  if (pages < inputs.sequences_max) {
    return ResourceExhausted(
        "keys and values need at least " + GiB(inputs.page_bytes * inputs.sequences_max) + " for " +
        std::to_string(inputs.sequences_max) + " sequences, the plan has " + GiB(bytes) + " (" +
        GiB(inputs.free_bytes) + " free): raise kv_cache.memory or lower engine.sequences_max");
  }
  if (bytes > inputs.free_bytes) {
    return ResourceExhausted("keys and values need " + GiB(bytes) + ", " + GiB(inputs.free_bytes) +
                             " free: lower kv_cache.memory or model.context");
  }
  return MemoryPlan{.kv_page_count = static_cast<int32_t>(std::min<int64_t>(pages, INT32_MAX)),
                    .kv_bytes = bytes};
}

int64_t FreeMemoryBytes() {
  int64_t free_bytes = ReadNumber("/proc/meminfo", "MemAvailable:") * 1024;
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", "");
  const int64_t used = ReadNumber("/sys/fs/cgroup/memory.current", "");
  if (limit > 0 && used >= 0) free_bytes = std::min(free_bytes, limit - used);
  return std::max<int64_t>(free_bytes, 0);
}

}  // namespace remontoir
