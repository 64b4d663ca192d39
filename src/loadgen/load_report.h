// What a load's records say: first tokens, gaps, rates, refusals, and how well the client kept
// time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "loadgen/load_record.h"
#include "metrics/distribution.h"

namespace remontoir {

// A request that is sent this much after its time is late.
inline constexpr int64_t kLateUs = 10'000;

struct LoadReport {
  int64_t requests = 0;
  int64_t long_requests = 0;
  int64_t answered = 0;
  int64_t refused = 0;                          // 429 or 503
  int64_t failed = 0;                           // neither answered nor refused
  std::map<std::string, int64_t> not_answered;  // "429", "timed out", ...: how many
  std::string first_error;                      // of a failed request

  // From the intended time to the first piece of text. A request that was given up without one
  // counts with the time that it waited; refused and broken ones don't.
  Distribution ttft_ms;
  Distribution short_ttft_ms;  // of short prompts
  Distribution long_ttft_ms;
  Distribution total_ms;    // intended time to the answer's end, of answered requests
  Distribution itl_ms;      // gaps between a stream's pieces, of all streams
  Distribution refusal_ms;  // last request byte to first reply byte, of refused requests

  double seconds = 0;  // first intended time to the last end
  double answered_per_s = 0;
  double output_tokens_per_s = 0;
  double prompt_tokens_per_s = 0;
  int64_t output_tokens = 0;  // where the server counted; else pieces
  int64_t prompt_tokens = 0;  // where the server counted; else as planned

  int64_t late_sends = 0;  // more than kLateUs after their time
  double latest_send_ms = 0;

  Distribution batch_size;  // reply headers of answered requests, where there were any
  Distribution batch_window_ms;
  Distribution queue_ms;
  Distribution ttft_error_ms;  // |X-TTFT-Predicted-Ms - time from the last request byte|
};

LoadReport ReportOf(std::span<const LoadRecord> records);

}  // namespace remontoir
