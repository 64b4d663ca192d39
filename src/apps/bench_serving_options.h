// What `remontoir bench serving` may be asked for, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/load_plan.h"

namespace remontoir {

// One of four loads: rate and seconds, clients, pulse, or trace.
struct BenchServingOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string model = "default";
  bool completions = false;           // /v1/completions instead of /v1/chat/completions
  std::vector<std::string> headers;   // "Name: value", sent with every request
  int32_t template_tokens = 0;        // what the chat template adds, taken off each prompt

  double rate = 0;        // requests a second; of a trace: its mean is stretched to this
  double seconds = 0;     // for how long requests are begun
  int32_t clients = 0;    // closed loop
  double think_s = 0;     // mean pause of a client
  int32_t pulse = 0;      // closed loop of minimal prompts and 16 tokens
  int64_t requests = 0;   // of a closed loop in all; of a trace: lines at most
  std::string trace;      // CSV file
  int32_t long_from = 0;  // prompts of a trace from which on they count as long

  LoadShape shape;
  uint64_t seed = 1;
  int32_t warm_up = 1;             // requests one after the other beforehand, not counted
  int32_t connections_max = 1000;  // below the usual bound of open files
  double reply_seconds_max = 600;  // for a whole answer
  std::string records;             // a CSV file for what was seen of each request
  bool json = false;
};

}  // namespace remontoir
