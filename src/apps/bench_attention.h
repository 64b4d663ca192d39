// `remontoir bench attention`: exact, masked and sparse attention on a model's own queries, keys
// and values.
#pragma once

#include <cstdio>

#include "apps/bench_options.h"
#include "base/status.h"

namespace remontoir {

// Reads a text with the model and times attention of some layers on one thread, in thread seconds.
// With options.json one object alone on `out`; notes go to stderr.
Status BenchAttention(const BenchAttentionOptions& options, std::FILE* out);

}  // namespace remontoir
