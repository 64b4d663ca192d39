// Typed reading of JSON fields and of the options that both endpoints share.
#include "api/field_reader.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <limits>

namespace remontoir {
namespace {

namespace json = boost::json;

constexpr double kRepetitionPenaltyMax = 10;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

std::string NumberText(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number);
  return {text, end.ptr};
}

std::optional<int64_t> ParseTokenKey(std::string_view key) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kInt32Max) {
    return std::nullopt;
  }
  return id;
}

void ReadStop(FieldReader& fields, std::vector<std::string>& stop) {
  const json::value* value = fields.Find("stop");
  if (value == nullptr) return;
  const auto add = [&](const std::string& path, const json::value& text) {
    if (!text.is_string()) return fields.FailKind(path, "a string", text);
    if (text.get_string().empty()) return fields.Fail(path, "must not be empty");
    stop.emplace_back(text.get_string());
  };
  if (!value->is_array()) {
    if (value->is_string()) return add("stop", *value);
    return fields.FailKind("stop", "a string or an array of strings", *value);
  }
  const json::array& texts = value->get_array();
  if (texts.size() > kStopStringsMax) {
    return fields.Fail("stop", "must have at most " + std::to_string(kStopStringsMax) +
                                   " strings, got " + std::to_string(texts.size()));
  }
  for (size_t i = 0; i < texts.size(); ++i) add("stop[" + std::to_string(i) + "]", texts[i]);
}

void ReadLogitBias(FieldReader& fields, std::vector<LogitBias>& biases) {
  const json::value* value = fields.Find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.FailKind("logit_bias", "an object", *value);
  const json::object& object = value->get_object();
  if (object.size() > kLogitBiasMax) {
    return fields.Fail("logit_bias",
                       "must have at most " + std::to_string(kLogitBiasMax) + " tokens");
  }
  FieldReader entries(object, fields.PathOf("logit_bias"), fields.error());
  for (const auto& entry : object) {
    const std::optional<int64_t> id = ParseTokenKey(entry.key());
    if (!id.has_value()) return fields.Fail("logit_bias", "must have token ids as keys");
    if (entry.value().is_null()) continue;
    LogitBias bias;
    bias.token = TokenId{static_cast<int32_t>(*id)};
    entries.ReadFloat(entry.key(), -100, 100, bias.bias);
    biases.push_back(bias);
  }
  // "1" and "01" are one token.
  std::ranges::sort(biases, {}, &LogitBias::token);
  if (std::ranges::adjacent_find(biases, {}, &LogitBias::token) != biases.end()) {
    fields.Fail("logit_bias", "names a token twice");
  }
}

void ReadSampling(FieldReader& fields, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  fields.ReadFloat("temperature", 0, 2, sampling.temperature);
  fields.ReadFloat("top_p", 0, 1, sampling.top_p);
  fields.ReadFloat("min_p", 0, 1, sampling.min_p);
  fields.ReadFloat("frequency_penalty", -2, 2, sampling.frequency_penalty);
  fields.ReadFloat("presence_penalty", -2, 2, sampling.presence_penalty);
  fields.ReadFloat("repetition_penalty", 0, kRepetitionPenaltyMax, sampling.repetition_penalty);
  if (sampling.repetition_penalty <= 0) {
    fields.Fail("repetition_penalty", "must be greater than 0");
  }
  // -1 is how some clients say "off".
  fields.ReadInt("top_k", -1, kInt32Max, sampling.top_k);
  sampling.top_k = std::max(sampling.top_k, 0);
  ReadLogitBias(fields, sampling.logit_bias);
  if (const json::value* seed = fields.Find("seed"); seed != nullptr) {
    const std::optional<int64_t> number = AsInteger(*seed);
    if (!number.has_value() && !seed->is_uint64()) {
      return fields.FailKind("seed", "a 64-bit integer", *seed);
    }
    options.has_seed = true;
    sampling.seed = number.has_value() ? static_cast<uint64_t>(*number) : seed->get_uint64();
  }
}

void ReadRoom(FieldReader& fields, GenerationOptions& options) {
  fields.ReadInt("max_context_length", 1, kInt32Max, options.max_context_length);
  fields.Read("cache_salt", options.cache_salt);
  if (options.cache_salt.size() > kCacheSaltBytesMax) {
    fields.Fail("cache_salt", "must have at most " + std::to_string(kCacheSaltBytesMax) +
                                  " bytes, got " + std::to_string(options.cache_salt.size()));
  }
}

void ReadPriority(FieldReader& fields, GenerationOptions& options) {
  if (fields.Find("priority") == nullptr) return;
  int32_t priority = 0;
  fields.ReadInt("priority", -kPriorityFieldMax, kPriorityFieldMax, priority);
  options.priority = priority;
}

}  // namespace

std::string_view KindName(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return "a boolean";
    case json::kind::int64:
    case json::kind::uint64: return "an integer";
    case json::kind::double_: return "a number";
    case json::kind::string: return "a string";
    case json::kind::array: return "an array";
    case json::kind::object: return "an object";
  }
  return "something else";
}

std::optional<ErrorBody> ParseObject(std::string_view body, json::value& value) {
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  boost::system::error_code error;
  value = json::parse(json::string_view(body.data(), body.size()), error, {}, options);
  if (error) return InvalidRequest("The body is not valid JSON: " + error.message());
  if (!value.is_object()) {
    return InvalidRequest("The body must be a JSON object, got " + std::string(KindName(value)));
  }
  return std::nullopt;
}

std::optional<int64_t> AsInteger(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::abs(number) > kExact || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

const json::value* FieldReader::Find(std::string_view name) const {
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

void FieldReader::Read(std::string_view name, bool& out) {
  const json::value* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_bool()) return FailKind(name, "a boolean", *value);
  out = value->get_bool();
}

void FieldReader::Read(std::string_view name, std::string& out) {
  const json::value* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return FailKind(name, "a string", *value);
  out = value->get_string();
}

void FieldReader::ReadFloat(std::string_view name, double min, double max, float& out) {
  const json::value* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number()) return FailKind(name, "a number", *value);
  const double number = value->to_number<double>();
  if (!(number >= min && number <= max)) {
    return Fail(name, "must be between " + NumberText(min) + " and " + NumberText(max) + ", got " +
                          NumberText(number));
  }
  out = static_cast<float>(number);
}

void FieldReader::ReadInt(std::string_view name, int64_t min, int64_t max, int32_t& out) {
  const json::value* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number()) return FailKind(name, "an integer", *value);
  const std::optional<int64_t> number = AsInteger(*value);
  if (!number.has_value() && !value->is_uint64()) {
    return Fail(name, "must be an integer, got " + NumberText(value->to_number<double>()));
  }
  if (!number.has_value() || *number < min || *number > max) {
    return Fail(name, "must be between " + std::to_string(min) + " and " + std::to_string(max) +
                          ", got " + json::serialize(*value));
  }
  out = static_cast<int32_t>(*number);
}

void FieldReader::ReadJson(std::string_view name, bool array, std::string& out) {
  const json::value* value = Find(name);
  if (value == nullptr) return;
  if (array ? !value->is_array() : !value->is_object()) {
    return FailKind(name, array ? "an array" : "an object", *value);
  }
  out = json::serialize(*value);
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void FieldReader::Fail(std::string_view name, std::string_view what) {
  if (!error_.has_value()) error_ = InvalidField(PathOf(name), what);
}

void FieldReader::FailUnsupported(std::string_view name, std::string_view what) {
  if (!error_.has_value()) error_ = UnsupportedField(PathOf(name), what);
}

void FieldReader::FailKind(std::string_view name, std::string_view wanted, const json::value& got) {
  Fail(name, "must be " + std::string(wanted) + ", got " + std::string(KindName(got)));
}

void ReadGenerationOptions(FieldReader& fields, GenerationOptions& options) {
  fields.Read("model", options.model);
  ReadSampling(fields, options);
  fields.ReadInt("n", 1, kChoicesMax, options.n);
  ReadStop(fields, options.stop);
  fields.Read("ignore_eos", options.ignore_eos);
  fields.Read("skip_special_tokens", options.skip_special_tokens);
  fields.Read("user", options.user);
  ReadRoom(fields, options);
  ReadPriority(fields, options);
  fields.Read("stream", options.stream);
  const json::value* stream_options = fields.Find("stream_options");
  if (stream_options == nullptr) return;
  if (!stream_options->is_object()) {
    return fields.FailKind("stream_options", "an object", *stream_options);
  }
  FieldReader stream(stream_options->get_object(), "stream_options", fields.error());
  stream.Read("include_usage", options.include_usage);
  stream.Read("continuous_usage_stats", options.continuous_usage);
}

void ReadTokens(FieldReader& fields, std::string_view name, const json::array& ids,
                std::vector<TokenId>& tokens) {
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::optional<int64_t> id = AsInteger(ids[i]);
    if (!id.has_value() || *id < 0 || *id > kInt32Max) {
      return fields.Fail(std::string(name) + "[" + std::to_string(i) + "]", "must be a token id");
    }
    tokens.push_back(TokenId{static_cast<int32_t>(*id)});
  }
}

void ReadMaxTokens(FieldReader& fields, int64_t min, GenerationOptions& options) {
  for (const std::string_view name : {"max_completion_tokens", "max_tokens"}) {
    if (fields.Find(name) == nullptr) continue;
    int32_t max_tokens = 0;
    fields.ReadInt(name, min, kInt32Max, max_tokens);
    options.max_tokens = max_tokens;
    return;
  }
}

}  // namespace remontoir
