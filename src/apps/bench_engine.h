// `remontoir bench engine`: tokens per second of prompts, of single steps and of batches, beside
// what the machine allows.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "apps/bench_options.h"
#include "apps/bench_runner.h"
#include "base/status.h"

namespace remontoir {

// The rows that the options ask for, shortest prompts first.
std::vector<BenchRow> RowsOf(const BenchEngineOptions& options);

// Results go to `out`, progress to stderr. Every row is measured once in a round, so that a slow
// minute of the machine hurts all alike.
Status BenchEngine(const BenchEngineOptions& options, std::FILE* out);

// Answers requests of one JSON object a line on stdin, one line each on `out`, until stdin ends:
//   {"row": "prompt", "tokens": 512}
//   {"row": "decode", "tokens": 2048, "steps": 32}          tokens: keys already there
//   {"row": "batch", "tokens": 512, "sequences": 8, "steps": 32}
// -> {"seconds": ..., "tokens": ..., "step_seconds": [...], "ceiling_seconds": ...}
//    or {"error": "..."}. The first line says {"engine", "describe", "file", "ceilings"}.
//   {"row": "ceilings"} -> {"ceilings": {...}}: measured again, the best so far from now on
Status ServeBenchRows(BenchRunner& runner, CeilingMeter& meter, std::FILE* out);

// {"instruction_set", "threads", "read_gb_s", "cached_read_gb_s", "int8_gop_s", "f32_gflop_s"}
std::string CeilingsJson(const Ceilings& ceilings);
// The same in words, without a line end.
std::string CeilingsLine(const Ceilings& ceilings);

}  // namespace remontoir
