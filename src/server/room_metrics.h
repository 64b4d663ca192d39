// The memory of keys and values as it was taken at start: it doesn't change afterwards.
#pragma once

#include <string>

#include "engine/memory_plan.h"
#include "metrics/metric_set.h"
#include "server/reply_room.h"

namespace remontoir {

struct RoomMetrics : MetricSet {
  explicit RoomMetrics(const EnginePlan& plan) {
    AddInfo({"remontoir_kv_strategy_info", "How sequences get their KV room"},
            {{"strategy", KvStrategyName(plan.dynamic)}});
    const MemoryState& arena = plan.kv_memory.arena;
    GaugeTable& memory =
        AddGauges({"remontoir_kv_memory_bytes",
                   "KV memory taken at start; prefaulted: in memory but not locked there"},
                  {"state", {"locked", "prefaulted", "plain"}});
    memory.At(0).Set(static_cast<double>(arena.locked_bytes));
    memory.At(1).Set(static_cast<double>(arena.prefaulted_bytes - arena.locked_bytes));
    memory.At(2).Set(static_cast<double>(arena.bytes - arena.prefaulted_bytes));
    AddGauge({"remontoir_kv_huge_page_bytes", "KV memory taken at start that lies in huge pages"})
        .Set(static_cast<double>(arena.huge_bytes));
  }
};

}  // namespace remontoir
