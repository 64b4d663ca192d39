// Bytes in, one HTTP/1.x request out, within bounds; Boost.Beast stays behind it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "http/http_message.h"

namespace remontoir {

class RequestParser {
 public:
  enum class State { kReading, kComplete, kFailed };

  RequestParser(size_t header_bytes_max, size_t body_bytes_max);
  ~RequestParser();

  // Takes what it can of `bytes` (of a header: nothing until it is whole) and says how much. Bytes
  // that weren't taken come again at the front of the next call, with more behind them.
  size_t Feed(std::string_view bytes);

  State state() const { return state_; }
  // kFailed: the status to answer with (400, 413, 431, 505) and why.
  int failure_status() const { return failure_status_; }
  const std::string& failure_reason() const { return failure_reason_; }

  // A request has begun: its header is whole.
  bool has_header() const;
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

  // kComplete: the request; the parser is ready for the next one.
  HttpRequest Take();

 private:
  struct Impl;
  void Reset();
  void Fail(int status, std::string reason);

  const size_t header_bytes_max_;
  const size_t body_bytes_max_;
  std::unique_ptr<Impl> impl_;
  State state_ = State::kReading;
  int failure_status_ = 0;
  std::string failure_reason_;
};

}  // namespace remontoir
