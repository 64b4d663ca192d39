// The one binary; a file per subcommand beside it.
#include <csignal>
#include <cstdio>
#include <variant>

#include "apps/bench_engine.h"
#include "apps/bench_kernels.h"
#include "apps/command_line.h"
#include "apps/inspect.h"
#include "apps/list.h"
#include "apps/pull.h"
#include "apps/run.h"
#include "apps/serve.h"

namespace {

using remontoir::BenchEngineOptions;
using remontoir::BenchKernelsOptions;
using remontoir::InspectOptions;
using remontoir::Invocation;
using remontoir::ListCommand;
using remontoir::PullCommand;
using remontoir::RemoveCommand;
using remontoir::Result;
using remontoir::RunOptions;
using remontoir::ServeOptions;
using remontoir::Status;
using remontoir::StatusCode;

constexpr int kExitFailed = 1;              // the file, the model or the server
constexpr int kExitUsage = 2;               // what was typed
constexpr int kExitStopped = 128 + SIGINT;  // as shells count it

Status Dispatch(const Invocation& invocation) {
  if (const auto* options = std::get_if<InspectOptions>(&invocation.command)) {
    return remontoir::Inspect(*options, stdout);
  }
  if (const auto* options = std::get_if<ServeOptions>(&invocation.command)) {
    return remontoir::Serve(*options);
  }
  if (const auto* options = std::get_if<RunOptions>(&invocation.command)) {
    return remontoir::Run(*options);
  }
  if (const auto* options = std::get_if<BenchEngineOptions>(&invocation.command)) {
    return remontoir::BenchEngine(*options, stdout);
  }
  if (const auto* options = std::get_if<BenchKernelsOptions>(&invocation.command)) {
    return remontoir::BenchKernels(*options, stdout);
  }
  if (const auto* options = std::get_if<PullCommand>(&invocation.command)) {
    return remontoir::Pull(*options, stdout);
  }
  if (const auto* options = std::get_if<ListCommand>(&invocation.command)) {
    return remontoir::List(*options, stdout);
  }
  if (const auto* options = std::get_if<RemoveCommand>(&invocation.command)) {
    return remontoir::Remove(*options, stdout);
  }
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Invocation> invocation = remontoir::ParseCommandLine(argc, argv);
  if (!invocation.ok()) {
    std::fprintf(stderr, "remontoir: %s\n", invocation.status().message().c_str());
    return kExitUsage;
  }
  std::fputs(invocation->text.c_str(), stdout);
  const Status status = Dispatch(*invocation);
  if (!status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "remontoir: %s\n", status.message().c_str());
    return status.code() == StatusCode::kCancelled ? kExitStopped : kExitFailed;
  }
  return 0;
}
