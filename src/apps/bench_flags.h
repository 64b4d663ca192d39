// The flags of `remontoir bench`.
#pragma once

#include "apps/bench_options.h"
#include "apps/bench_serving_options.h"

namespace CLI {
class App;
}

namespace remontoir {

struct BenchCommands {
  CLI::App* engine = nullptr;
  CLI::App* kernels = nullptr;
  CLI::App* kv = nullptr;
  CLI::App* attention = nullptr;
  CLI::App* serving = nullptr;
  BenchEngineOptions engine_options;
  BenchKernelsOptions kernels_options;
  BenchKvOptions kv_options;
  BenchAttentionOptions attention_options;
  BenchServingOptions serving_options;
};

// `commands` must outlive the app.
void AddBenchCommands(CLI::App& app, BenchCommands& commands);

}  // namespace remontoir
