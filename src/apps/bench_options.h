// What `remontoir bench` may be asked for, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remontoir {

struct BenchEngineOptions {
  std::string file;
  int32_t threads = 0;  // 0: one a core
  bool float32 = false;
  bool experts_mapped = false;
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

struct BenchAttentionOptions {
  std::string file;
  std::string text_file;  // empty: texts that Debian installs
  bool quick = false;     // within 50 s on two cores
  bool json = false;
};

}  // namespace remontoir
