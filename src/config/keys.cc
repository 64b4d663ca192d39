// The configuration keys, their setters and their bounds.
#include "config/keys.h"

#include <algorithm>
#include <cstdint>

#include "config/edit_distance.h"

namespace remontoir {
namespace {

constexpr int64_t kTokensMax = int64_t{1} << 24;
constexpr int64_t kCountMax = 65536;

constexpr std::string_view kCompats[] = {"authors", "llama.cpp"};
constexpr std::string_view kKvStrategies[] = {"bucketed_prealloc_v2", "dynamic"};
constexpr std::string_view kKvTypes[] = {"f16", "bf16", "f32", "q8_0"};
constexpr std::string_view kExpertWeights[] = {"resident", "mapped"};
constexpr std::string_view kPolicies[] = {"adaptive", "fixed", "immediate", "legacy"};
constexpr std::string_view kPredictors[] = {"lstm_v2", "ewma", "none"};
constexpr std::string_view kAttentionModes[] = {"exact", "auto", "custom_sparse"};
constexpr std::string_view kLogLevels[] = {"debug", "info", "warning", "error"};

// Each puts a value that was read without an error into its field.
template <class Value, class Field>
Status Put(Result<Value> value, Field& field) {
  if (!value.ok()) return value.status();
  field = static_cast<Field>(std::move(value).value());
  return Status::Ok();
}

template <class Value, class Field>
Status PutUnlessAuto(const ConfigValue& written, Result<Value> value, std::optional<Field>& field) {
  if (IsAuto(written)) {
    field.reset();
    return Status::Ok();
  }
  if (!value.ok()) return value.status().WithContext("auto, or");
  field = *value;
  return Status::Ok();
}

Status SetBuckets(Config& config, const ConfigValue& value) {
  REM_ASSIGN_OR_RETURN(auto buckets, ReadIntegerList(value, 64, kTokensMax));
  if (!std::is_sorted(buckets.begin(), buckets.end(), std::less_equal<>())) {
    return InvalidArgument("wants lengths in ascending order, each once");
  }
  config.kv_cache.prealloc_buckets = std::move(buckets);
  return Status::Ok();
}

Status SetBlockKeys(Config& config, const ConfigValue& value) {
  REM_ASSIGN_OR_RETURN(const int64_t keys, ReadInteger(value, 16, 64));
  if (keys != 16 && keys != 32 && keys != 64) return InvalidArgument("wants 16, 32 or 64");
  config.attention.block_keys = keys;
  return Status::Ok();
}

const ConfigKey kKeys[] = {
    {"model.file", "path", "", "The model file to serve; a split file by its first part",
     [](Config& c, const ConfigValue& v) { return Put(ReadText(v), c.model.file); }},
    {"model.alias", "list of names", "[]",
     "Names the model answers to beside its file's name and `default`",
     [](Config& c, const ConfigValue& v) { return Put(ReadTextList(v), c.model.alias); }},
    {"model.context", "whole number or auto", "auto",
     "Tokens a sequence may hold; auto: what the model was trained for",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadInteger(v, 64, kTokensMax), c.model.context);
     }},
    {"model.rope_freq_scale", "number", "1",
     "Multiplies every RoPE frequency; 0.5 stretches the positions to twice the range",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadReal(v, 1e-3, 1e3), c.model.rope_freq_scale);
     }},
    {"model.rope_freq_base_scale", "number", "1", "Multiplies the RoPE base",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadReal(v, 1e-3, 1e3), c.model.rope_freq_base_scale);
     }},
    {"model.repack_cache", "auto, off or a folder", "auto",
     "Where weights are kept as they were repacked, for the next start; auto: `repacked` in "
     "~/.cache/remontoir (`REMONTOIR_HOME`)",
     [](Config& c, const ConfigValue& v) { return Put(ReadText(v), c.model.repack_cache); }},
    {"model.repack_cache_bytes_max", "memory size", "16 GiB",
     "Bytes that it may take on disk; the models that were not loaded for longest go first",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadMemorySize(v), c.model.repack_cache_bytes_max);
     }},
    {"model.compat", "authors or llama.cpp", "authors",
     "Whose reading of a model file to follow where llama.cpp differs from the model's authors",
     [](Config& c, const ConfigValue& v) { return Put(ReadChoice(v, kCompats), c.model.compat); }},

    {"server.host", "address", "127.0.0.1", "The address to listen on; 0.0.0.0 for all of them",
     [](Config& c, const ConfigValue& v) { return Put(ReadText(v), c.server.host); }},
    {"server.port", "whole number", "8080", "The port to listen on; 0: a free one",
     [](Config& c, const ConfigValue& v) { return Put(ReadInteger(v, 0, 65535), c.server.port); }},
    {"server.api_keys_file", "path", "",
     "A file with one API key a line; without one every client is let in",
     [](Config& c, const ConfigValue& v) { return Put(ReadText(v), c.server.api_keys_file); }},
    {"server.any_model_name", "true or false", "false",
     "Answer whatever model name a request gives instead of 404",
     [](Config& c, const ConfigValue& v) { return Put(ReadBoolean(v), c.server.any_model_name); }},
    {"server.trust_content_specials", "true or false", "false",
     "Let special tokens that a message spells count as special tokens",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadBoolean(v), c.server.trust_content_specials);
     }},

    {"engine.threads", "whole number or auto", "auto", "Threads that compute; auto: one a core",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadInteger(v, 1, 1024), c.engine.threads);
     }},
    {"engine.sequences_max", "whole number", "8", "Answers generated at the same time",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadInteger(v, 1, 4096), c.engine.sequences_max);
     }},
    {"engine.queue_max", "whole number", "256", "Requests that may wait; one more is answered 429",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadInteger(v, 1, kCountMax), c.engine.queue_max);
     }},
    {"engine.round_tokens_max", "whole number", "512",
     "Tokens that one round of prefill and decode may compute",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadInteger(v, 16, kCountMax), c.engine.round_tokens_max);
     }},
    {"engine.ttft_slo_ms", "number or auto", "auto",
     "Milliseconds within which the first token must come, or the request is refused; auto: no "
     "deadline",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadReal(v, 1, 3.6e6), c.engine.ttft_slo_ms);
     }},
    {"engine.single_when_not_streaming", "true or false", "false",
     "Compute requests that don't stream one by one, each in rounds of its own",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadBoolean(v), c.engine.single_when_not_streaming);
     }},
    {"engine.experts", "resident or mapped", "resident",
     "Where experts' matrices are: repacked in memory, or left in the model file and repacked at "
     "each use, several times slower, for a model larger than memory",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kExpertWeights), c.engine.experts);
     }},

    {"kv_cache.strategy", "bucketed_prealloc_v2 or dynamic", "bucketed_prealloc_v2",
     "Whether room for keys and values is taken at start or asked of the system per request",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kKvStrategies), c.kv_cache.strategy);
     }},
    {"kv_cache.prealloc_buckets", "list of token counts", "[]",
     "Length classes of room; none: every 2048 tokens up to 32768, doubling above; those above the "
     "context are dropped",
     SetBuckets},
    {"kv_cache.bucket_capacity", "whole number", "32",
     "Leases of a length class that may be out at once",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadInteger(v, 1, 4096), c.kv_cache.bucket_capacity);
     }},
    {"kv_cache.memory", "memory size or auto", "auto",
     "Memory for keys and values; auto: the smaller of a quarter of what is free and what "
     "`engine.sequences_max` full contexts need",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadMemorySize(v), c.kv_cache.memory);
     }},
    {"kv_cache.type", "f16, bf16, f32 or q8_0", "f16", "Element type of keys and values",
     [](Config& c, const ConfigValue& v) { return Put(ReadChoice(v, kKvTypes), c.kv_cache.type); }},
    {"kv_cache.reserve_tokens_default", "whole number", "1024",
     "Tokens reserved for an answer whose request gives no max_tokens",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadInteger(v, 1, kTokensMax), c.kv_cache.reserve_tokens_default);
     }},
    {"kv_cache.lock", "true or false", "true",
     "Lock the room taken at start in memory; where the memlock limit forbids it, the log says so "
     "and the room may be swapped out",
     [](Config& c, const ConfigValue& v) { return Put(ReadBoolean(v), c.kv_cache.lock); }},
    {"kv_cache.dynamic_memory_max", "memory size or auto", "auto",
     "Bound of the dynamic strategy's memory; auto: one full context, or a quarter of what is left "
     "where that is less",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadMemorySize(v), c.kv_cache.dynamic_memory_max);
     }},

    {"dynamic_batching.enabled", "true or false", "true", "False: policy immediate",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadBoolean(v), c.dynamic_batching.enabled);
     }},
    {"dynamic_batching.policy", "adaptive, fixed, immediate or legacy", "adaptive",
     "How a round is chosen",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kPolicies), c.dynamic_batching.policy);
     }},
    {"dynamic_batching.min_window_ms", "number", "50", "Shortest time budget of an adaptive round",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadReal(v, 1, 1e4), c.dynamic_batching.min_window_ms);
     }},
    {"dynamic_batching.max_window_ms", "number", "120", "Longest time budget of an adaptive round",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadReal(v, 1, 1e4), c.dynamic_batching.max_window_ms);
     }},
    {"dynamic_batching.predictor_model", "lstm_v2, ewma or none", "lstm_v2",
     "What forecasts the arrivals of requests",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kPredictors), c.dynamic_batching.predictor_model);
     }},
    {"dynamic_batching.predictor_file", "path", "",
     "A network that train-predictor wrote; empty: the one built in",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadText(v), c.dynamic_batching.predictor_file);
     }},

    {"attention.mode", "exact, auto or custom_sparse", "exact",
     "Whether rows know most of their far keys by moments: from position 16384 on, 4288, or never",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kAttentionModes), c.attention.mode);
     }},
    {"attention.epsilon", "number", "0.1",
     "Error that a row may leave, as a part of its softmax's weight; 0: none, which is exact",
     [](Config& c, const ConfigValue& v) { return Put(ReadReal(v, 0, 0.9), c.attention.epsilon); }},
    {"attention.block_keys", "16, 32 or 64", "16",
     "Similar keys whose moments stand for them; 32 is faster and loses some rare facts",
     [](Config& c, const ConfigValue& v) { return SetBlockKeys(c, v); }},
    {"attention.residual_max", "number or auto", "auto",
     "A row that leaves more error is computed exactly; auto: none is",
     [](Config& c, const ConfigValue& v) {
       return PutUnlessAuto(v, ReadReal(v, 0, 1), c.attention.residual_max);
     }},

    {"telemetry.log_level", "debug, info, warning or error", "info",
     "The least important messages that are logged",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadChoice(v, kLogLevels), c.telemetry.log_level);
     }},
    {"telemetry.arrival_log", "path", "",
     "A file for when requests came and how long they were: times and counts, no text",
     [](Config& c, const ConfigValue& v) { return Put(ReadText(v), c.telemetry.arrival_log); }},
    {"telemetry.arrival_log_bytes_max", "memory size", "64 MiB",
     "Bytes that it may take on disk; at half of them it becomes PATH.1, and the one before goes",
     [](Config& c, const ConfigValue& v) {
       return Put(ReadMemorySize(v), c.telemetry.arrival_log_bytes_max);
     }},
};

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string_view Section(const ConfigKey& key) { return key.name.substr(0, key.name.find('.')); }

}  // namespace

std::span<const ConfigKey> ConfigKeys() { return kKeys; }

const ConfigKey* FindConfigKey(std::string_view name) {
  const auto* const key = std::ranges::find(kKeys, name, &ConfigKey::name);
  return key == std::end(kKeys) ? nullptr : key;
}

bool IsConfigSection(std::string_view name) {
  return std::ranges::any_of(kKeys, [&](const ConfigKey& key) { return Section(key) == name; });
}

std::string_view NearestConfigName(std::string_view name) {
  constexpr size_t kNameLengthMax = 100;
  if (name.size() > kNameLengthMax) return {};
  const std::string_view last = LastPart(name);
  std::string_view nearest;
  // A third of the letters wrong is still a slip; more is another word.
  size_t distance_bound = std::max<size_t>(last.size() / 3, 2) + 1;
  const auto consider = [&](std::string_view candidate, size_t distance) {
    if (distance >= distance_bound) return;
    distance_bound = distance;
    nearest = candidate;
  };
  for (const ConfigKey& key : kKeys) {
    consider(Section(key), EditDistance(name, Section(key)));
    consider(key.name, EditDistance(name, key.name));
    // The right word in the wrong section is one step away.
    consider(key.name, EditDistance(last, LastPart(key.name)) + 1);
  }
  return nearest;
}

Status UnknownConfigName(std::string_view name) {
  std::string message = std::string(name) + ": unknown key";
  const std::string_view nearest = NearestConfigName(name);
  if (!nearest.empty()) message += "; did you mean " + std::string(nearest) + "?";
  return InvalidArgument(std::move(message));
}

Status SetConfigKey(std::string_view name, const ConfigValue& value, Config& config) {
  const ConfigKey* key = FindConfigKey(name);
  if (key == nullptr) return UnknownConfigName(name);
  return key->set(config, value).WithContext(key->name);
}

Status CheckConfig(const Config& config) {
  if (config.dynamic_batching.min_window_ms > config.dynamic_batching.max_window_ms) {
    return InvalidArgument(
        "dynamic_batching.min_window_ms: is larger than dynamic_batching.max_window_ms");
  }
  return Status::Ok();
}

}  // namespace remontoir
