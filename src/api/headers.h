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

// What a request may say of its room for keys and values, beside Cache-Control.
inline constexpr char kHeaderKvCacheMode[] = "X-KV-Cache-Mode";
// What a reply says of it.
inline constexpr char kHeaderKvCacheStrategy[] = "X-KV-Cache-Strategy";
inline constexpr char kHeaderKvBucket[] = "X-KV-Bucket";   // length of its class in tokens
inline constexpr char kHeaderKvInitUs[] = "X-KV-Init-Us";  // microseconds
inline constexpr char kHeaderCache[] = "X-Cache";          // "HIT" or "MISS"

// What a request may say of its attention: "exact"; and what a reply says: custom_sparse or exact.
inline constexpr char kHeaderAttentionMode[] = "X-Attention-Mode";
inline constexpr char kHeaderFlashAttnMode[] = "X-Flash-Attn-Mode";

// What a request may say of its turn.
inline constexpr char kHeaderPriority[] = "X-Priority";      // an integer, lower runs first
inline constexpr char kHeaderNoBatch[] = "X-No-Batch";       // true: shares no round
inline constexpr char kHeaderTtftSloMs[] = "x-slo-ttft-ms";  // deadline of the first token
inline constexpr char kHeaderTimings[] = "X-Timings";        // true: the reply tells its timings
// What a reply says of it.
inline constexpr char kHeaderTtftPredictedMs[] = "X-TTFT-Predicted-Ms";
inline constexpr char kHeaderBatchSize[] = "X-Batch-Size";  // sequences in its first token's round
inline constexpr char kHeaderBatchWindowMs[] = "X-Batch-Window-Ms";  // that round's window
inline constexpr char kHeaderBatchPolicy[] = "X-Batch-Policy";
inline constexpr char kHeaderBatchWaitMs[] = "X-Batch-Wait-Ms";  // held back on purpose
inline constexpr char kHeaderQueueMs[] = "X-Queue-Ms";           // from arrival to admission

inline constexpr char kBucketedStrategy[] = "bucketed_prealloc_v2";
inline constexpr char kDynamicStrategy[] = "dynamic";
inline constexpr char kExactAttention[] = "exact";
inline constexpr char kSparseAttention[] = "custom_sparse";

inline std::string InferenceVersion(std::string_view semver) {
  return std::string(semver) + "-dynamic-batch";
}

}  // namespace remontoir
