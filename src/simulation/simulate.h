// `remontoir simulate`: what policies would do with a stream of requests on a machine.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/policy.h"

namespace remontoir {

struct SimulateOptions {
  std::string trace;   // a CSV file, or the folder of the named streams' files
  std::string stream;  // a name, or a .yaml file
  std::vector<SchedulingPolicy> policies = {SchedulingPolicy::kImmediate,
                                            SchedulingPolicy::kAdaptive};
  uint64_t seed = 1;
  int32_t seeds = 1;
  int32_t clients = 0;  // 0: requests come when the stream says
  double think_s = 0;
  double seconds = 600;  // that clients send
  double from = 0.75;    // share of the stream's time that is left out before
  SchedulerOptions scheduler;
  std::string predictor = "ewma";  // or "none", or a trained one's file
  std::string costs;               // a file; empty: those of the stream's machine
  double ttft_slo_ms = 0;
  bool json = false;
  std::string plot;         // a file to write; empty: none
  bool acceptance = false;  // the specification's lines instead of one stream
};

// Prints to `out`, byte for byte the same for the same options and files.
Status Simulate(const SimulateOptions& options, std::FILE* out);

}  // namespace remontoir
