// What `remontoir bench` may be asked for, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/load_plan.h"

namespace remontoir {

struct BenchEngineOptions {
  std::string file;
  int32_t threads = 0;  // 0: one a core
  bool float32 = false;
  std::vector<int32_t> prompts = {32, 128, 512, 2048, 8192};
  std::vector<int32_t> depths = {0, 16, 512, 2048, 8192};  // keys before the first step
  std::vector<int32_t> batches = {1, 2, 4, 8, 16, 32};
  int32_t batch_depth = 512;
  int32_t steps = 32;          // of a decode or batch row
  int32_t rounds = 5;          // measurements of each row
  bool json = false;           // one object instead of a table
  bool steps_profile = false;  // what the kinds of steps take instead of whole rounds
  bool worker = false;         // measure what JSON lines on stdin ask for
};

struct BenchKernelsOptions {
  std::string isa;     // empty: the fastest; "all": each but the scalar one
  std::string filter;  // only kernels whose name contains it
  bool json = false;
};

struct BenchKvOptions {
  std::string file;     // a model for first tokens after a history; empty: rooms alone
  int32_t threads = 0;  // 0: one a core
  int32_t rounds = 9;   // measurements of each length
  bool json = false;
};

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
  int32_t connections_max = 1024;
  double reply_seconds_max = 600;  // for a whole answer
  std::string records;             // a CSV file for what was seen of each request
  bool json = false;
};

}  // namespace remontoir
