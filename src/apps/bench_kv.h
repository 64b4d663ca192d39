// `remontoir bench kv`: what room for keys and values costs a request, by the arena and by asking
// the system; and with a model, first tokens after a cached history.
#pragma once

#include <cstdio>

#include "apps/bench_options.h"
#include "base/status.h"

namespace remontoir {

// From admission to usable room, bucketed and dynamic in turns, for lengths of 2k ... 32k in the
// shapes of SmolLM2 and of a 7 B model. Lengths whose arena or dynamic room wouldn't fit into half
// of free memory are left out, and said so.
Status BenchKv(const BenchKvOptions& options, std::FILE* out);

}  // namespace remontoir
