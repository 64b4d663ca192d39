// `remontoir bench serving`: a running server under open- or closed-loop load.
#pragma once

#include <cstdio>

#include "apps/bench_serving_options.h"
#include "base/status.h"

namespace remontoir {

// Errors: flags that don't go together, a trace that can't be read, a server that doesn't answer
// the warm-up. Requests that fail under load are numbers in the report, no error.
Status BenchServing(const BenchServingOptions& options, std::FILE* out);

}  // namespace remontoir
