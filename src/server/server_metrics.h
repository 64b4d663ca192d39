// What the event loop counts and measures: requests, their tokens, and times as a client has them.
#pragma once

#include <optional>

#include "base/clock.h"
#include "metrics/bounds.h"
#include "metrics/metric_set.h"
#include "server/endpoints.h"

namespace remontoir {

// How a request was answered; the label `status`.
enum class AnswerClass : uint8_t {
  kSuccess,      // "2xx"
  kClientError,  // "4xx"
  kServerError,  // "5xx"
  kNone,         // "none": the client left before an answer began
};

inline AnswerClass AnswerClassOf(int status) {
  return status < 400   ? AnswerClass::kSuccess
         : status < 500 ? AnswerClass::kClientError
                        : AnswerClass::kServerError;
}

// Why a request was refused that may come again; the label `reason`.
enum class Refused : uint8_t {
  kQueueFull,  // "queue_full"
  kDeadline,   // "deadline"
};

struct ServerMetrics : MetricSet {
  CounterTable& requests =
      AddCounters({"remontoir_http_requests_total",
                   "Requests by how their answer began; none: the client left before it"},
                  {"endpoint", EndpointNames()}, {"status", {"2xx", "4xx", "5xx", "none"}});
  Gauge& in_flight =
      AddGauge({"remontoir_http_requests_in_flight", "Requests whose answer isn't complete"});
  Gauge& ready = AddGauge({"remontoir_ready", "1 once the model is loaded"});
  Counter& prompt_tokens = AddCounter({"remontoir_prompt_tokens_total",
                                       "Prompt tokens of the requests that the engine took",
                                       "vllm:prompt_tokens_total"});
  Counter& completion_tokens =
      AddCounter({"remontoir_completion_tokens_total", "Tokens generated, as `usage` counts them",
                  "vllm:generation_tokens_total"});
  Histogram& first_token = AddHistogram(
      {"remontoir_time_to_first_token_seconds", "From a request's last byte to its first token",
       "vllm:time_to_first_token_seconds"},
      kFirstTokenBounds);
  Histogram& token_gap =
      AddHistogram({"remontoir_inter_token_latency_seconds", "Between two tokens of one choice",
                    "vllm:inter_token_latency_seconds"},
                   kTokenGapBounds);
  Histogram& request =
      AddHistogram({"remontoir_request_seconds", "From a request's last byte to its last token",
                    "vllm:e2e_request_latency_seconds"},
                   kAnswerBounds);
  Histogram& request_prompt_tokens =
      AddHistogram({"remontoir_request_prompt_tokens", "Prompt tokens of a request",
                    "vllm:request_prompt_tokens"},
                   kTokenBounds);
  Histogram& request_completion_tokens = AddHistogram(
      {"remontoir_request_completion_tokens", "Tokens generated for a request that was completed",
       "vllm:request_generation_tokens"},
      kTokenBounds);

  Histogram& prediction_ratio =
      AddHistogram({"remontoir_first_token_prediction_ratio",
                    "Time to the first token by what was predicted for it; 1: as predicted"},
                   kRatioBounds);
  CounterTable& refused =
      AddCounters({"remontoir_requests_refused_total", "Requests that were answered 429"},
                  {"reason", {"queue_full", "deadline"}});

  void CountRefusal(Refused reason) { refused.At(static_cast<size_t>(reason)).Add(); }
  void CountAnswer(Endpoint endpoint, AnswerClass answer) {
    requests.At(static_cast<size_t>(endpoint), static_cast<size_t>(answer)).Add();
  }
};

// What one generation tells the metrics, at times that its caller read.
class GenerationMeter {
 public:
  // The metrics outlive it.
  GenerationMeter(ServerMetrics& metrics, TimePoint began) : metrics_(&metrics), began_(began) {}

  // The engine took the request and predicted its first token so long after the request came.
  void Begin(int64_t prompt_tokens, int64_t ttft_predicted_us);
  // A choice got a token; last_token: when it got the one before.
  void Token(std::optional<TimePoint>& last_token, TimePoint now);
  // All choices are whole.
  void End(int64_t completion_tokens, TimePoint now);

  TimePoint began() const { return began_; }
  int64_t ttft_predicted_us() const { return ttft_predicted_us_; }
  // Since began(); none yet: empty.
  std::optional<int64_t> ttft_us() const { return ttft_us_; }

 private:
  void FirstToken(int64_t ttft_us);

  ServerMetrics* metrics_;
  TimePoint began_;
  int64_t ttft_predicted_us_ = 0;
  std::optional<int64_t> ttft_us_;
};

}  // namespace remontoir
