// The text side's conductor: routes, keys, admission, and the generations in flight.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "http/http_server.h"
#include "server/api_keys.h"
#include "server/arrival_writer.h"
#include "server/served_model.h"

namespace remontoir {

struct ServiceOptions {
  std::string version;  // semantic version of this server
  HttpServerOptions http;
  ApiKeys api_keys;
  size_t text_queue_max = 256;  // requests that wait for the text worker; beyond: 429
  bool dynamic = false;         // kv_cache.strategy, for replies that generate nothing
  // A stream's headers wait so long for the round that they tell of, then they go without it.
  int64_t stream_headers_held_ms = 5000;
  ArrivalWriterOptions arrival_log = {};
};

class Service {
 public:
  // Listens at once and answers 503 until Serve. The clock outlives the service.
  static Result<std::unique_ptr<Service>> Create(ServiceOptions options, const Clock& clock);
  virtual ~Service() = default;

  virtual int port() const = 0;

  // Any thread, once: requests are served from now on. What `model` points to is used until Run
  // returns; the engine must go before the service does, as its events wake the service.
  virtual void Serve(const ServedModel& model) = 0;

  // Serves on the calling thread until Stop.
  virtual void Run() = 0;

  // Any thread: running answers may finish within http.stop_ms; a second call ends at once.
  virtual void Stop() = 0;

  // Before Run: `task` runs on the serving thread when `descriptor` is readable.
  virtual void WatchDescriptor(int descriptor, std::function<void()> task) = 0;
};

}  // namespace remontoir
