// What was seen of one request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/load_plan.h"

namespace remontoir {

enum class LoadOutcome {
  kAnswered,     // the whole stream came
  kRefused,      // 429 or 503
  kFailed,       // another status, or an error within the stream
  kUnreachable,  // no connection, or it broke before the answer's head
  kCutShort,     // it broke within the answer, or the stream ended before its time
  kTimedOut,     // given up after the bound
};

std::string_view LoadOutcomeName(LoadOutcome outcome);

// Times are microseconds after the load's start; -1: it didn't happen.
struct LoadRecord {
  PlannedRequest planned;
  int64_t intended_us = 0;         // when it should have been sent: latencies count from here
  int64_t started_us = -1;         // began to connect
  int64_t sent_us = -1;            // the request's last byte was handed to the system
  int64_t first_byte_us = -1;      // of the reply
  int64_t headers_us = -1;         // the reply's head was whole
  std::vector<int64_t> pieces_us;  // every chunk that brought text
  int64_t ended_us = -1;

  LoadOutcome outcome = LoadOutcome::kUnreachable;
  int status = 0;  // 0: no reply
  std::string error;
  int64_t prompt_tokens = -1;  // as the server counted; -1: it didn't say
  int64_t output_tokens = -1;

  // Reply headers, where the server sent them.
  std::optional<double> batch_size;         // X-Batch-Size
  std::optional<double> batch_window_ms;    // X-Batch-Window-Ms
  std::optional<double> ttft_predicted_ms;  // X-TTFT-Predicted-Ms
  std::optional<double> queue_ms;           // X-Queue-Ms
  std::optional<double> retry_after_ms;     // retry-after-ms
};

}  // namespace remontoir
