// Sends a planned load to an OpenAI-compatible server over HTTP/1.1 and writes down what came back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "http/http_message.h"
#include "loadgen/completion_stream.h"
#include "loadgen/load_plan.h"
#include "loadgen/load_record.h"
#include "loadgen/load_target.h"

namespace remontoir {

// A new connection for every request: servers that give each connection a thread aren't held up by
// idle ones.
struct LoadClientOptions {
  LoadTarget target;
  LoadEndpoint endpoint = LoadEndpoint::kChat;
  std::string model = "default";
  HttpHeaders headers;              // sent with every request
  uint64_t seed = 0;                // of the prompts' words and the clients' pauses
  int connections_max = 1000;       // beyond: waits here, and is counted from its intended time
  int64_t reply_ms_max = 600'000;   // intended time to the answer's end; beyond: given up
  int32_t prompt_tokens_extra = 0;  // what the server's chat template adds, taken off each prompt
};

struct ClosedLoop {
  int clients = 1;
  double think_s = 0;  // mean of the exponential pause before each request; 0: none
  double seconds = 0;  // > 0: no request is begun later
};

// Open loop: each request at its planned time, whatever became of earlier ones. Latency counts from
// the planned time even where this client or its bounds came late, so a server that stalls can't
// hide the requests that would have been sent meanwhile. Records in the plan's order. Errors: the
// target's name can't be resolved.
Result<std::vector<LoadRecord>> RunOpenLoad(const LoadClientOptions& options, const LoadPlan& plan,
                                            const Clock& clock);

// Closed loop: each client takes the plan's next request when its last one has ended and it has
// paused; that moment is the intended time. Records of the requests that were begun, in the plan's
// order.
Result<std::vector<LoadRecord>> RunClosedLoad(const LoadClientOptions& options,
                                              const ClosedLoop& loop, const LoadPlan& plan,
                                              const Clock& clock);

}  // namespace remontoir
