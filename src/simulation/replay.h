// Plays a stream of requests to a real engine on a simulated machine, under a clock of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "predictor/arrival_predictor.h"
#include "scheduler/policy.h"
#include "simulation/arrival.h"
#include "simulation/machine.h"

namespace remontoir {

// Clients that send, wait for the whole answer, think and send again.
struct Clients {
  int32_t count = 0;       // 0: an open loop, requests come when the stream says
  double think_s = 0;      // mean; exponentially distributed
  double seconds = 600;    // no request is sent after that
  int32_t count_late = 0;  // as many from half of the time on; 0: no change
};

struct ReplayOptions {
  SchedulerOptions scheduler;
  std::optional<ArrivalPredictor> predictor = {};  // none: nobody is expected
  Machine machine;
  Clients clients;
  uint64_t seed = 1;               // of the clients' draws
  int64_t first_token_us_max = 0;  // what every request asks for; 0: nothing
};

struct RequestRecord {
  int64_t arrived_us = 0;
  int64_t first_token_us = -1;  // after its arrival; -1: there was none
  int64_t ended_us = -1;        // likewise
  int32_t tokens = 0;           // that it got
  bool refused = false;
};

struct TokenGap {
  int32_t request = 0;  // its place in Replayed::requests
  int32_t us = 0;       // between two tokens of it
};

struct RoundRecord {
  int64_t begin_us = 0;
  int32_t us = 0;
  int32_t occupied = 0;  // slots
};

struct Replayed {
  int32_t slots = 0;
  std::vector<RequestRecord> requests;  // in order of arrival
  std::vector<TokenGap> gaps;
  std::vector<RoundRecord> rounds;
  int64_t begin_us = 0;     // the first arrival
  int64_t end_us = 0;       // the last token
  int64_t hold_us_max = 0;  // that any sequence was held back on purpose
};

// Every request of the stream, or with clients as many as they send, with lengths drawn from the
// stream. The same arguments give the same result. Errors: costs or lengths that no engine takes.
Result<Replayed> Replay(std::span<const Arrival> stream, const ReplayOptions& options);

}  // namespace remontoir
