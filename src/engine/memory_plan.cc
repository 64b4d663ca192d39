// The shares of memory, and the system's word on what is free.
#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "tensor/kv_layout.h"
#include "tensor/sealed_layout.h"

namespace remontoir {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr int64_t kBytesMax = std::numeric_limits<int64_t>::max();
// Pages of arena and dynamic region together are counted in 32 bits, with room to round up.
constexpr int64_t kPagesMax = int64_t{1} << 29;

// Sums and products of sizes from a file or a configuration end at the largest number.
using Wide = __int128;
int64_t Clamped(Wide bytes) { return static_cast<int64_t>(std::min<Wide>(bytes, kBytesMax)); }

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

int64_t ContextPages(const MemoryPlanInputs& inputs) {
  return (int64_t{inputs.context_max} + kKvPageTokens - 1) / kKvPageTokens;
}

int64_t FreeAfter(const MemoryPlanInputs& inputs, Wide taken) {
  return static_cast<int64_t>(std::max<Wide>(inputs.free_bytes - taken, 0));
}

int64_t PlanArena(const MemoryPlanInputs& inputs) {
  if (inputs.dynamic) return 0;
  if (inputs.kv_memory_bytes > 0) return inputs.kv_memory_bytes / inputs.page_bytes;
  const int64_t left = FreeAfter(inputs, Wide{inputs.weights_bytes} + inputs.activation_bytes);
  const int64_t full = ContextPages(inputs) * inputs.sequences_max;
  const Wide page_bytes = Wide{inputs.page_bytes} + inputs.segment_bytes / kSegmentPages;
  return std::max<int64_t>(inputs.sequences_max,
                           std::min<int64_t>(full, static_cast<int64_t>(left / 4 / page_bytes)));
}

int64_t PlanSegments(const MemoryPlanInputs& inputs, int64_t arena_pages) {
  if (inputs.segment_bytes == 0) return 0;
  return std::max(arena_pages, ContextPages(inputs)) / kSegmentPages + 1;
}

int64_t PlanDynamic(const MemoryPlanInputs& inputs, int64_t arena_pages) {
  if (inputs.dynamic_bytes_max > 0) return inputs.dynamic_bytes_max / inputs.page_bytes;
  const Wide taken =
      Wide{inputs.weights_bytes} + inputs.activation_bytes + Wide{arena_pages} * inputs.page_bytes;
  const int64_t room = FreeAfter(inputs, taken) / 4 / inputs.page_bytes;
  // Without an arena a sequence must find a page there.
  return std::max<int64_t>(inputs.dynamic ? 1 : 0, std::min(ContextPages(inputs), room));
}

std::string Advice(const MemoryPlan& plan, const MemoryPlanInputs& inputs) {
  if (plan.weights_bytes >= plan.free_bytes) {
    return "the weights alone take " + GiB(plan.weights_bytes) +
           ": choose a smaller model, or one of fewer bits a weight" +
           (plan.weights_bytes - inputs.expert_bytes < plan.free_bytes
                ? ", or set engine.experts to mapped, which is slower"
                : "");
  }
  if (plan.activation_bytes > plan.free_bytes - plan.weights_bytes) {
    return "activations take " + GiB(plan.activation_bytes) +
           ": lower engine.round_tokens_max or model.context";
  }
  const bool arena_fits =
      plan.weights_bytes + plan.activation_bytes <= plan.free_bytes - plan.kv_bytes;
  const std::string sealed =
      "sealed segments take " + GiB(plan.sealed_bytes) + ": set attention.mode to exact, or lower ";
  if (plan.total_bytes - plan.sealed_bytes <= plan.free_bytes) {
    return sealed + (inputs.kv_memory_bytes > 0 ? "kv_cache.memory" : "model.context");
  }
  if (arena_fits) return "lower kv_cache.dynamic_memory_max or model.context";
  if (inputs.kv_memory_bytes > 0) return "lower kv_cache.memory";
  // On auto it is a page a sequence already.
  return "lower engine.sequences_max";
}

}  // namespace

std::string GiB(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

MemoryPlan PlanMemory(const MemoryPlanInputs& inputs) {
  REM_CHECK(inputs.page_bytes > 0, "a page has bytes");
  MemoryPlan plan;
  plan.weights_bytes = inputs.weights_bytes;
  plan.activation_bytes = inputs.activation_bytes;
  plan.free_bytes = inputs.free_bytes;
  plan.kv_page_count = static_cast<int32_t>(std::min(PlanArena(inputs), kPagesMax));
  plan.kv_bytes = Clamped(Wide{plan.kv_page_count} * inputs.page_bytes);
  int64_t dynamic = std::min(PlanDynamic(inputs, plan.kv_page_count), kPagesMax);
  // Ranges of them are whole granules.
  const int64_t granule = KvPageGranule(inputs.page_bytes);
  dynamic = (dynamic + granule - 1) / granule * granule;
  plan.dynamic_page_count = static_cast<int32_t>(dynamic);
  plan.dynamic_bytes = Clamped(Wide{dynamic} * inputs.page_bytes);
  plan.segment_count =
      static_cast<int32_t>(std::min(PlanSegments(inputs, plan.kv_page_count), kPagesMax));
  plan.sealed_bytes = Clamped(Wide{plan.segment_count} * inputs.segment_bytes);
  plan.total_bytes = Clamped(Wide{plan.weights_bytes} + plan.activation_bytes + plan.kv_bytes +
                             plan.dynamic_bytes + plan.sealed_bytes);
  return plan;
}

Status CheckFits(const MemoryPlan& plan, const MemoryPlanInputs& inputs) {
  // Below a page a sequence nothing can run side by side.
  if (!inputs.dynamic && plan.kv_page_count < inputs.sequences_max) {
    return ResourceExhausted("keys and values need at least " +
                             GiB(Clamped(Wide{inputs.page_bytes} * inputs.sequences_max)) +
                             " for " + std::to_string(inputs.sequences_max) +
                             " sequences, the plan has " + GiB(plan.kv_bytes) +
                             ": raise kv_cache.memory or lower engine.sequences_max");
  }
  if (inputs.dynamic && plan.dynamic_page_count < 1) {
    return ResourceExhausted("keys and values need at least " + GiB(inputs.page_bytes) +
                             ", the plan has none: raise kv_cache.dynamic_memory_max");
  }
  if (plan.total_bytes <= plan.free_bytes) return Status::Ok();
  return ResourceExhausted("needs " + GiB(plan.total_bytes) + ", " + GiB(plan.free_bytes) +
                           " free: " + Advice(plan, inputs));
}

int64_t RoomTokens(const EnginePlan& plan) {
  const MemoryPlan& memory = plan.memory;
  return int64_t{plan.dynamic ? memory.dynamic_page_count : memory.kv_page_count} * kKvPageTokens;
}

int64_t FreeMemoryBytes() {
  int64_t free_bytes = ReadNumber("/proc/meminfo", "MemAvailable:") * 1024;
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", "");
  const int64_t used = ReadNumber("/sys/fs/cgroup/memory.current", "");
  if (limit > 0 && used >= 0) {
    // What files take in the cache is given up when memory is wanted.
    const char* const kStatistics = "/sys/fs/cgroup/memory.stat";
    const int64_t cached = std::max<int64_t>(0, ReadNumber(kStatistics, "inactive_file")) +
                           std::max<int64_t>(0, ReadNumber(kStatistics, "active_file"));
    free_bytes = std::min(free_bytes, limit - std::max<int64_t>(0, used - cached));
  }
  return std::max<int64_t>(free_bytes, 0);
}

}  // namespace remontoir
