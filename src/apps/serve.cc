// Wires configuration, signals, the loading model and the service together.
#include "apps/serve.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "apps/local_model.h"
#include "apps/signal_waiter.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/api_keys.h"
#include "server/service.h"

namespace remontoir {
namespace {

LogLevel LevelOf(LogVerbosity verbosity) {
  switch (verbosity) {
    case LogVerbosity::kDebug: return LogLevel::kDebug;
    case LogVerbosity::kInfo: return LogLevel::kInfo;
    case LogVerbosity::kWarning: return LogLevel::kWarning;
    case LogVerbosity::kError: break;
  }
  return LogLevel::kError;
}

Result<ServiceOptions> PlanService(const Config& config) {
  ServiceOptions options;
  options.version = REMONTOIR_VERSION;
  options.dynamic = config.kv_cache.strategy == KvStrategy::kDynamic;
  options.arrival_log = {config.telemetry.arrival_log, config.telemetry.arrival_log_bytes_max};
  options.http.host = config.server.host;
  options.http.port = config.server.port;
  if (!config.server.api_keys_file.empty()) {
    REM_ASSIGN_OR_RETURN(options.api_keys, ApiKeys::Load(config.server.api_keys_file));
  }
  return options;
}

}  // namespace

Status Serve(const ServeOptions& options) {
  const Config& config = options.engine.config;
  SetLogLevel(LevelOf(config.telemetry.log_level));
  if (config.model.file.empty()) {
    return InvalidArgument(
        "no model: name one with --model MODEL, -hf OWNER/REPO or model.file in the configuration "
        "(scripts/fetch_model fetches a small one)");
  }
  REM_ASSIGN_OR_RETURN(ServiceOptions service_options, PlanService(config));
  const bool asks_for_keys = !service_options.api_keys.empty();
  const SystemClock clock;
  REM_ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                       Service::Create(std::move(service_options), clock));
  const SignalWaiter signals({SIGINT, SIGTERM}, [&](int) {
    LogInfo("stopping: running answers may end; a second signal doesn't wait for them");
    service->Stop();
  });
  LogInfo("listening on http://" + config.server.host + ":" + std::to_string(service->port()) +
          (asks_for_keys ? ", API keys asked for" : ""));

  std::unique_ptr<LocalModel> model;  // goes before the service: the engine's events wake it
  Status load_status;
  std::atomic<bool> loading = true;
  std::thread loader([&] {
    Result<std::unique_ptr<LocalModel>> loaded = OpenLocalModel(options.engine, clock);
    loading.store(false);
    if (!loaded.ok()) {
      load_status = loaded.status();
      service->Stop();
      return;
    }
    model = std::move(loaded).value();
    LogInfo(DescribeLoading(*model));
    LogInfo(DescribeRoom(model->loaded.model.plan));
    LogInfo("ready: " + Describe(*model));
    service->Serve(Served(*model, config));
  });
  service->Run();
  // Nobody has been answered yet, so there is nothing to end in order.
  if (loading.load()) std::_Exit(0);
  loader.join();
  if (model != nullptr) KeepCosts(*model);
  return load_status;
}

}  // namespace remontoir
