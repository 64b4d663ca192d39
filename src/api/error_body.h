// What a client is told when its request is refused: HTTP status and the body's four fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remontoir {

struct ErrorBody {
  int http_status = 500;
  std::string message;
  std::string type;
  std::string param;       // the request's field, e.g. "messages[0].content"; empty: null
  std::string code;        // empty: null
  int retry_after_ms = 0;  // 0: no advice
  // Of a deadline that can't be met: when the first token is predicted, and when it was wanted.
  std::optional<int64_t> ttft_predicted_ms = {};
  int64_t ttft_slo_ms = 0;
};

inline constexpr int kRetryMsMin = 300;
inline constexpr int kRetryMsMax = 120'000;  // clients don't wait longer

// {"error":{"message":...,"type":...,"param":...,"code":...}}; where a time was predicted, also
// "ttft_predicted_ms" and "ttft_slo_ms".
std::string ToJson(const ErrorBody& error);

ErrorBody InvalidRequest(std::string message);                          // 400, no field to blame
ErrorBody InvalidField(std::string_view param, std::string_view what);  // 400: "param what"
ErrorBody UnsupportedField(std::string_view param,
                           std::string_view what);  // 400, right but not here
// 400: the prompt, or it and max_tokens, are longer than the context. The message begins with
// "token limit exceeded", which clients look for.
ErrorBody ContextLengthExceeded(std::string_view message, std::string_view param);
bool IsTokenLimit(std::string_view message);                                 // begins like that
ErrorBody InvalidApiKey();                                                   // 401
ErrorBody ModelNotFound(std::string_view model);                             // 404
ErrorBody PathNotFound(std::string_view method, std::string_view path);      // 404
ErrorBody MethodNotAllowed(std::string_view method, std::string_view path);  // 405
// 429. retry_us: from now, after which there should be room; kRetryMsMin at least is advised.
ErrorBody QueueFull(int64_t retry_us = 0);
// 429: the first token would come later than the request allows. Times since its arrival; retry_us
// as above.
ErrorBody DeadlineUnmet(int64_t predicted_us, int64_t deadline_us, int64_t retry_us);
ErrorBody Loading();                         // 503, with advice
ErrorBody ShuttingDown();                    // 503, with advice
ErrorBody ServerError(std::string message);  // 500
// What HTTP itself refuses (400, 408, 413, 431, 503, 505).
ErrorBody HttpRefusal(int http_status, std::string_view reason);

}  // namespace remontoir
