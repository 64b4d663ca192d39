// What a reply, and the log, tell of a request's course: predicted and measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace remontoir {

class JsonWriter;

// Times in microseconds. An empty one was not there: nothing was predicted, no token came.
struct ReplyTimings {
  std::optional<int64_t> ttft_predicted_us = {};  // as was told at arrival
  std::optional<int64_t> ttft_us = {};            // from the request's last byte to its first token
  std::optional<int64_t> queue_us = {};           // from its arrival at the engine to its admission
  std::optional<int64_t> prefill_us = {};         // from there to its first token
  std::optional<int64_t> decode_first_us = {};    // from there to the second
  int32_t batch_size = 0;       // sequences in its first token's round; 0: none was
  int32_t batch_window_ms = 0;  // of that round
  std::string batch_policy = {};
  int64_t batch_wait_us = 0;  // held back on purpose
  int64_t cached_tokens = 0;  // of the prompt
  std::string kv_strategy = {};
  int32_t kv_bucket_tokens = 0;  // 0: dynamic
  int64_t kv_init_us = 0;
  // Of sparse attention; empty: no row was sparse.
  std::optional<double> attention_density = {};   // far blocks that were read, as a part
  std::optional<double> attention_residual = {};  // the largest error left, as a part
};

// The fields, one by one, of an object that the caller has begun. Times in milliseconds with three
// decimals, named ..._ms.
void WriteFields(JsonWriter& json, const ReplyTimings& timings);

// Whole milliseconds, for promises that must not come early.
int64_t RoundedUpMs(int64_t us);

// "12.345" of 12345.
std::string MillisecondsText(int64_t us);

}  // namespace remontoir
