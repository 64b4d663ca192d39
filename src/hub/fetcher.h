// One GET with its redirects; libcurl stays behind this interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "hub/transfer_rules.h"
#include "hub/url.h"

namespace remontoir {

struct FetchLimits {
  int redirects_max = 8;
  int64_t connect_timeout_ms = 15'000;
  int64_t stall_window_ms =
      30'000;  // a transfer that brings less than stall_bytes in this is ended
  int64_t stall_bytes = 16 << 10;
};

class FetchSink {
 public:
  virtual ~FetchSink() = default;
  // The answer that is no redirect, before its body; no: the body is not read.
  virtual bool OnResponse(const ResponseFacts& facts) = 0;
  // No: the transfer ends here.
  virtual bool OnData(std::string_view bytes) = 0;
};

struct FetchQuestion {
  Url url;
  int64_t offset = 0;    // bytes from here on; 0: all, and no Range header
  std::string if_range;  // a strong ETag, or empty
};

class Fetcher {
 public:
  // `token` (empty: none) is sent to `token_origin` only, and no more once a redirect has led away
  // from it. `cancel` may be set from a signal handler; `clock` and `cancel` outlive the fetcher.
  Fetcher(Url token_origin, std::string token, const FetchLimits& limits, const Clock& clock,
          const std::atomic<bool>& cancel);
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // Ok when the answer came whole, and when the sink said no. kUnavailable: the network or the
  // server broke off, asking again may help. kCancelled; kFailedPrecondition: certificate, bad
  // redirect.
  Status Get(const FetchQuestion& question, FetchSink& sink);

 private:
  struct Hop;

  Status GetHop(Hop& hop);
  void Prepare(Hop& hop);
  Status Drive(Hop& hop);

  const Url token_origin_;
  const std::string token_;
  const FetchLimits limits_;
  const Clock& clock_;
  const std::atomic<bool>& cancel_;
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace remontoir
