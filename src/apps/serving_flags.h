// The flags of `remontoir bench serving`.
#pragma once

#include "apps/bench_serving_options.h"

namespace CLI {
class App;
}

namespace remontoir {

// `options` must outlive the command.
void AddBenchServingFlags(CLI::App& command, BenchServingOptions& options);

}  // namespace remontoir
