// The one binary; a file per subcommand beside it.
#include <csignal>
#include <cstdio>
#include <variant>

#include "apps/bench_attention.h"
#include "apps/bench_engine.h"
#include "apps/bench_kernels.h"
#include "apps/bench_kv.h"
#include "apps/bench_serving.h"
#include "apps/command_line.h"
#include "apps/eval_logits.h"
#include "apps/eval_long_context.h"
#include "apps/inspect.h"
#include "apps/list.h"
#include "apps/perplexity.h"
#include "apps/plan.h"
#include "apps/pull.h"
#include "apps/run.h"
#include "apps/serve.h"
#include "apps/tokenize.h"
#include "apps/train_predictor_command.h"
#include "simulation/simulate.h"

namespace remontoir {
namespace {

constexpr int kExitFailed = 1;              // the file, the model or the server
constexpr int kExitUsage = 2;               // what was typed
constexpr int kExitStopped = 128 + SIGINT;  // as shells count it

struct Dispatcher {
  Status operator()(std::monostate) const { return Status::Ok(); }
  Status operator()(const InspectOptions& options) const { return Inspect(options, stdout); }
  Status operator()(const ServeOptions& options) const { return Serve(options); }
  Status operator()(const RunOptions& options) const { return Run(options); }
  Status operator()(const BenchEngineOptions& options) const {
    return BenchEngine(options, stdout);
  }
  Status operator()(const BenchKernelsOptions& options) const {
    return BenchKernels(options, stdout);
  }
  Status operator()(const BenchKvOptions& options) const { return BenchKv(options, stdout); }
  Status operator()(const BenchAttentionOptions& options) const {
    return BenchAttention(options, stdout);
  }
  Status operator()(const BenchServingOptions& options) const {
    return BenchServing(options, stdout);
  }
  Status operator()(const PullCommand& command) const { return Pull(command, stdout); }
  Status operator()(const ListCommand& command) const { return List(command, stdout); }
  Status operator()(const RemoveCommand& command) const { return Remove(command, stdout); }
  Status operator()(const TokenizeOptions& options) const {
    return Tokenize(options, stdin, stdout);
  }
  Status operator()(const PerplexityOptions& options) const {
    return MeasurePerplexity(options, stdout);
  }
  Status operator()(const EvalLogitsOptions& options) const { return EvalLogits(options, stdout); }
  Status operator()(const EvalLongContextOptions& options) const {
    return EvalLongContext(options, stdout);
  }
  Status operator()(const PlanOptions& options) const { return Plan(options, stdout); }
  Status operator()(const SimulateOptions& options) const { return Simulate(options, stdout); }
  Status operator()(const TrainOptions& options) const {
    return TrainPredictorCommand(options, stdout);
  }
  Status operator()(const CompletionOptions& options) const {
    std::fputs(options.script.c_str(), stdout);
    return Status::Ok();
  }
};

int Main(int argc, char** argv) {
  const Result<Invocation> invocation = ParseCommandLine(argc, argv);
  if (!invocation.ok()) {
    std::fprintf(stderr, "remontoir: %s\n", invocation.status().message().c_str());
    return kExitUsage;
  }
  std::fputs(invocation->text.c_str(), stdout);
  const Status status = std::visit(Dispatcher(), invocation->command);
  if (!status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "remontoir: %s\n", status.message().c_str());
    return status.code() == StatusCode::kCancelled ? kExitStopped : kExitFailed;
  }
  return 0;
}

}  // namespace
}  // namespace remontoir

int main(int argc, char** argv) { return remontoir::Main(argc, argv); }
