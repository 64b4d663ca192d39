// Timings as JSON, in the order of a request's life.
#include "api/timings.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "api/json_writer.h"

namespace remontoir {
namespace {

void WriteMs(JsonWriter& json, std::string_view key, std::optional<int64_t> us) {
  json.Key(key);
  if (us.has_value()) {
    json.Raw(MillisecondsText(*us));
  } else {
    json.Null();
  }
}

void WriteCount(JsonWriter& json, std::string_view key, int32_t count) {
  json.Key(key);
  if (count > 0) {
    json.Int(count);
  } else {
    json.Null();
  }
}

std::string FractionText(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", fraction);
  return text;
}

}  // namespace

int64_t RoundedUpMs(int64_t us) { return us / 1000 + (us % 1000 > 0 ? 1 : 0); }

std::string MillisecondsText(int64_t us) {
  const int64_t whole = std::max<int64_t>(us, 0);
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(whole / 1000),
                static_cast<int>(whole % 1000));
  return text;
}

void WriteFields(JsonWriter& json, const ReplyTimings& timings) {
  WriteMs(json, "ttft_predicted_ms", timings.ttft_predicted_us);
  WriteMs(json, "ttft_ms", timings.ttft_us);
  WriteMs(json, "queue_ms", timings.queue_us);
  WriteMs(json, "prefill_time_ms", timings.prefill_us);
  WriteMs(json, "decode_step_0_latency_ms", timings.decode_first_us);
  WriteCount(json, "batch_size", timings.batch_size);
  WriteCount(json, "batch_window_ms", timings.batch_window_ms);
  json.Key("batch_policy").String(timings.batch_policy);
  WriteMs(json, "batch_wait_ms", timings.batch_wait_us);
  json.Key("cached_tokens").Int(timings.cached_tokens);
  json.Key("kv_strategy").String(timings.kv_strategy);
  WriteCount(json, "kv_bucket", timings.kv_bucket_tokens);
  json.Key("kv_init_us").Int(timings.kv_init_us);
  if (timings.attention_density.has_value()) {
    json.Key("attention_density").Raw(FractionText(*timings.attention_density));
  }
  if (timings.attention_residual.has_value()) {
    json.Key("attention_residual").Raw(FractionText(*timings.attention_residual));
  }
}

}  // namespace remontoir
