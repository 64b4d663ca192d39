// What an operator can set: the keys of inference_config.yaml as plain data with their defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace remontoir {

enum class ModelCompat { kAuthors, kLlamaCpp };
enum class KvStrategy { kBucketedPreallocV2, kDynamic };
enum class KvType { kF16, kBF16, kF32, kQ8_0 };
enum class BatchingPolicy { kAdaptive, kFixed, kImmediate, kLegacy };
enum class PredictorModel { kLstmV2, kEwma, kNone };
enum class ExpertWeights { kResident, kMapped };
enum class AttentionMode { kExact, kAuto, kCustomSparse };
enum class LogVerbosity { kDebug, kInfo, kWarning, kError };

struct ModelConfig {
  std::string file;                   // a model file; empty: named on the command line
  std::vector<std::string> alias;     // names it answers to beside its file's name and "default"
  std::optional<int64_t> context;     // tokens; unset: what the model was trained for
  double rope_freq_scale = 1;         // multiplies every RoPE frequency (0.5: twice the range)
  double rope_freq_base_scale = 1;    // multiplies the RoPE base
  std::string repack_cache = "auto";  // a folder for packed weights; "off": none
  int64_t repack_cache_bytes_max = int64_t{16} << 30;  // of all models together
  ModelCompat compat = ModelCompat::kAuthors;          // whose reading of a file to follow in doubt
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8080;                      // 0: the system picks a free one
  std::string api_keys_file;            // one key a line; empty: no keys asked for
  bool any_model_name = false;          // answer to any model name
  bool trust_content_specials = false;  // special tokens spelled in a message count as such
};

struct EngineConfig {
  std::optional<int64_t> threads;                    // unset: as many as cores
  int64_t sequences_max = 8;                         // generations in flight at once
  int64_t queue_max = 256;                           // requests that may wait for a place
  int64_t round_tokens_max = 512;                    // rows of one round
  std::optional<double> ttft_slo_ms;                 // unset: no deadline
  bool single_when_not_streaming = false;            // who streams nothing shares no round
  ExpertWeights experts = ExpertWeights::kResident;  // or left in the model file
};

struct KvCacheConfig {
  KvStrategy strategy = KvStrategy::kBucketedPreallocV2;
  std::vector<int64_t> prealloc_buckets;  // tokens, ascending; empty: every 2048 up to the context
  int64_t bucket_capacity = 32;           // leases of a class that may be out at once
  std::optional<int64_t> memory;          // bytes; unset: from free memory and sequences_max
  KvType type = KvType::kF16;
  int64_t reserve_tokens_default = 1024;  // reserved for the answer when max_tokens is not given
  std::optional<int64_t> dynamic_memory_max;  // bytes; unset: one full context
  bool lock = true;  // keep the room in memory where the system's limit allows it
};

struct DynamicBatchingConfig {
  bool enabled = true;  // false: immediate
  BatchingPolicy policy = BatchingPolicy::kAdaptive;
  double min_window_ms = 50;
  double max_window_ms = 120;
  PredictorModel predictor_model = PredictorModel::kLstmV2;
  std::string predictor_file;  // empty: the network that is built in
};

struct AttentionConfig {
  AttentionMode mode = AttentionMode::kExact;
  double epsilon = 0.1;                // error that a row may leave; 0: exact
  int64_t block_keys = 16;             // similar keys that are known by their moments together
  std::optional<double> residual_max;  // rows that leave more are computed exactly; none: off
};

struct TelemetryConfig {
  LogVerbosity log_level = LogVerbosity::kInfo;
  std::string arrival_log;  // a file; empty: none
  int64_t arrival_log_bytes_max = int64_t{64} << 20;
};

struct Config {
  ModelConfig model;
  ServerConfig server;
  EngineConfig engine;
  KvCacheConfig kv_cache;
  DynamicBatchingConfig dynamic_batching;
  AttentionConfig attention;
  TelemetryConfig telemetry;
};

}  // namespace remontoir
