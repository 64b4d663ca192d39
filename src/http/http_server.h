// An HTTP/1.1 server on one event-loop thread: bounded, keep-alive, streaming, told when a client
// leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/http_message.h"

namespace remontoir {

// Every bound has an answer, named beside it.
struct HttpServerOptions {
  std::string host = "127.0.0.1";             // a name or an address of this machine
  int port = 0;                               // 0: any free one
  int connections_max = 4096;                 // beyond: 503, then closed
  size_t header_bytes_max = 32 << 10;         // beyond: 431
  size_t body_bytes_max = 16 << 20;           // beyond: 413
  size_t read_ahead_bytes_max = 64 << 10;     // beyond: not read until the request is answered
  size_t stream_pending_bytes_max = 1 << 20;  // beyond: the exchange is closed
  int64_t request_read_ms = 30'000;           // first byte to last byte of a request; beyond: 408
  int64_t idle_ms = 75'000;                   // between requests; beyond: closed
  int64_t write_stall_ms = 30'000;            // without a byte taken by the client; beyond: closed
  int64_t stop_ms = 10'000;                   // for running exchanges after Stop; then closed
};

// The handler's side of one request. Used on the loop thread only; may be held as long as one
// likes. Once closed() every call does nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual uint64_t id() const = 0;  // unique in the process's server
  virtual const HttpRequest& request() const = 0;

  // A whole answer.
  virtual void Respond(HttpResponse response) = 0;

  // An answer in pieces: StartStream, any number of Write, Finish. Chunked for HTTP/1.1; for
  // HTTP/1.0 the connection's end is the answer's end.
  virtual void StartStream(int status, std::string_view content_type, HttpHeaders headers) = 0;
  virtual void Write(std::string_view bytes) = 0;
  virtual void Finish() = 0;

  // Written but not yet taken by the system.
  virtual size_t pending_bytes() const = 0;
  // The answer is complete, or nobody will read it.
  virtual bool closed() const = 0;
};

// Called on the loop thread; must return within 5 ms and not throw.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // May answer at once or later.
  virtual void OnRequest(std::shared_ptr<HttpExchange> exchange) = 0;
  // The client left, or was cut off by a bound, before its answer was complete. Once an exchange,
  // never from inside a call of the exchange.
  virtual void OnClosed(uint64_t exchange_id) = 0;
  // The answer to what never became a request: 400, 408, 413, 431, 503, 505.
  virtual HttpResponse Refusal(int status, std::string_view reason);
};

class HttpServer {
 public:
  // Binds and listens; the handler must outlive the server. Errors name host and port.
  static Result<std::unique_ptr<HttpServer>> Create(const HttpServerOptions& options,
                                                    HttpHandler& handler);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;

  // Serves on the calling thread until stopped.
  virtual void Run() = 0;

  // From any thread: `task` runs on the loop.
  virtual void Post(std::function<void()> task) = 0;

  // From any thread: stops accepting, lets running exchanges finish within stop_ms, closes, ends
  // Run. A second call closes at once.
  virtual void Stop() = 0;

  // On the loop, or before Run: `callback` runs on the loop whenever `descriptor` is readable and
  // must make it unreadable. The descriptor stays the caller's and must outlive the server.
  virtual void WatchDescriptor(int descriptor, std::function<void()> callback) = 0;

  // On the loop, or before Run: `task` runs once, after_ms later.
  virtual void After(int64_t after_ms, std::function<void()> task) = 0;
};

}  // namespace remontoir
