// Names and values of the headers that clients of the API know.
#pragma once

#include <string>
#include <string_view>

namespace remontoir {

inline constexpr char kHeaderRequestId[] = "x-request-id";
inline constexpr char kHeaderClientRequestId[] = "X-Client-Request-Id";
inline constexpr char kHeaderProcessingMs[] = "openai-processing-ms";
inline constexpr char kHeaderInferenceVersion[] = "X-Inference-Version";
inline constexpr char kHeaderRetryAfter[] = "Retry-After";
inline constexpr char kHeaderRetryAfterMs[] = "retry-after-ms";
inline constexpr char kHeaderAuthorization[] = "Authorization";
inline constexpr char kHeaderWwwAuthenticate[] = "WWW-Authenticate";
inline constexpr char kHeaderAllow[] = "Allow";
inline constexpr char kHeaderCacheControl[] = "Cache-Control";
inline constexpr char kHeaderAccelBuffering[] = "X-Accel-Buffering";

inline std::string InferenceVersion(std::string_view semver) {
  return std::string(semver) + "-dynamic-batch";
}

}  // namespace remontoir
