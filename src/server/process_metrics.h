// What the process costs the machine, under the names that every Prometheus client uses.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/metric_set.h"

namespace remontoir {

struct ProcessMetrics : MetricSet {
  // version: the server's; started: Unix seconds.
  ProcessMetrics(const std::string& version, int64_t started);

  Gauge& resident_bytes = AddGauge({"process_resident_memory_bytes", "Memory that is resident"});
  Gauge& virtual_bytes = AddGauge({"process_virtual_memory_bytes", "Memory that is mapped"});
  Counter& cpu_us =
      AddCounter({"process_cpu_seconds_total", "Time of all threads, user and system"},
                 /*per_unit=*/1e6);
  Gauge& start = AddGauge({"process_start_time_seconds", "Start of the server since 1970"});
  CounterTable& page_faults =
      AddCounters({"remontoir_page_faults_total",
                   "Page faults of all threads; minor: served from memory, major: from a disk"},
                  {"kind", {"minor", "major"}});

  // Asks the system.
  void Update();

 private:
  Counter* heap_allocations_ = nullptr;  // null: they aren't counted in this build
};

}  // namespace remontoir
