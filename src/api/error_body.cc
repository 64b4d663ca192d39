// Error bodies: one builder a kind of refusal.
#include "api/error_body.h"

#include <algorithm>
#include <utility>

#include "api/json_writer.h"
#include "api/timings.h"

namespace remontoir {
namespace {

constexpr std::string_view kInvalidRequestType = "invalid_request_error";
constexpr std::string_view kTokenLimitExceeded = "token limit exceeded";
constexpr int kLoadingRetryMs = 1000;

ErrorBody Make(int http_status, std::string message, std::string_view type, std::string_view param,
               std::string_view code) {
  ErrorBody error;
  error.http_status = http_status;
  error.message = std::move(message);
  error.type = type;
  error.param = param;
  error.code = code;
  return error;
}

std::string Joined(std::string_view first, std::string_view second) {
  return std::string(first) + " " + std::string(second);
}

int RetryMs(int64_t retry_us) {
  return static_cast<int>(
      std::clamp<int64_t>(RoundedUpMs(retry_us), int64_t{kRetryMsMin}, int64_t{kRetryMsMax}));
}

ErrorBody WithRetry(ErrorBody error, int retry_after_ms) {
  error.retry_after_ms = retry_after_ms;
  return error;
}

}  // namespace

std::string ToJson(const ErrorBody& error) {
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(error.message);
  json.Key("type").String(error.type);
  json.Key("param").StringOrNull(error.param);
  json.Key("code").StringOrNull(error.code);
  if (error.ttft_predicted_ms.has_value()) {
    json.Key("ttft_predicted_ms").Int(*error.ttft_predicted_ms);
    json.Key("ttft_slo_ms").Int(error.ttft_slo_ms);
  }
  json.EndObject().EndObject();
  return json.Take();
}

ErrorBody InvalidRequest(std::string message) {
  return Make(400, std::move(message), kInvalidRequestType, "", "");
}

ErrorBody InvalidField(std::string_view param, std::string_view what) {
  return Make(400, Joined(param, what), kInvalidRequestType, param, "invalid_value");
}

ErrorBody UnsupportedField(std::string_view param, std::string_view what) {
  return Make(400, Joined(param, what), kInvalidRequestType, param, "unsupported_value");
}

bool IsTokenLimit(std::string_view message) { return message.starts_with(kTokenLimitExceeded); }

ErrorBody ContextLengthExceeded(std::string_view message, std::string_view param) {
  std::string text;
  if (!IsTokenLimit(message)) text = std::string(kTokenLimitExceeded) + ": ";
  text += message;
  return Make(400, std::move(text), kInvalidRequestType, param, "context_length_exceeded");
}

ErrorBody InvalidApiKey() {
  return Make(401, "Missing or wrong API key: send it as 'Authorization: Bearer KEY'",
              "authentication_error", "", "invalid_api_key");
}

ErrorBody ModelNotFound(std::string_view model) {
  return Make(404, "The model '" + std::string(model) + "' is not served here; see /v1/models",
              kInvalidRequestType, "model", "model_not_found");
}

ErrorBody PathNotFound(std::string_view method, std::string_view path) {
  return Make(404, "Nothing here: " + Joined(method, path), kInvalidRequestType, "", "not_found");
}

ErrorBody MethodNotAllowed(std::string_view method, std::string_view path) {
  return Make(405, std::string(path) + " does not take " + std::string(method), kInvalidRequestType,
              "", "method_not_allowed");
}

ErrorBody QueueFull(int64_t retry_us) {
  return WithRetry(Make(429, "The server's queue is full; try again soon", "rate_limit_error", "",
                        "rate_limit_exceeded"),
                   RetryMs(retry_us));
}

ErrorBody DeadlineUnmet(int64_t predicted_us, int64_t deadline_us, int64_t retry_us) {
  const int64_t predicted_ms = RoundedUpMs(predicted_us);
  const int64_t deadline_ms = deadline_us / 1000;
  ErrorBody error =
      Make(429,
           "The first token is predicted after " + std::to_string(predicted_ms) +
               " ms, later than the " + std::to_string(deadline_ms) + " ms that the request allows",
           "rate_limit_error", "", "deadline_unmet");
  error.ttft_predicted_ms = predicted_ms;
  error.ttft_slo_ms = deadline_ms;
  return WithRetry(std::move(error), RetryMs(retry_us));
}

ErrorBody Loading() {
  return WithRetry(
      Make(503, "The model is still loading", "service_unavailable", "", "model_loading"),
      kLoadingRetryMs);
}

ErrorBody ShuttingDown() {
  return WithRetry(
      Make(503, "The server is shutting down", "service_unavailable", "", "shutting_down"),
      kLoadingRetryMs);
}

ErrorBody ServerError(std::string message) {
  return Make(500, std::move(message), "server_error", "", "");
}

ErrorBody HttpRefusal(int http_status, std::string_view reason) {
  const std::string_view type = http_status >= 500 ? "service_unavailable" : kInvalidRequestType;
  ErrorBody error = Make(http_status, std::string(reason), type, "", "");
  return http_status == 503 ? WithRetry(std::move(error), kRetryMsMin) : error;
}

}  // namespace remontoir
