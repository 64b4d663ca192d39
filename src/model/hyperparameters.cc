// Checks of single values and of how they fit together.
#include "model/hyperparameters.h"

#include <cmath>
#include <string>

namespace remontoir {
namespace {

// Bounds that no real model meets; they keep every later product inside 64 bits.
constexpr uint64_t kLayersMax = 4096;
constexpr uint64_t kWidthMax = 1 << 20;
constexpr uint64_t kHeadsMax = 1 << 14;
constexpr uint64_t kHeadWidthMax = 1024;
constexpr uint64_t kFeedForwardWidthMax = 1 << 24;
constexpr uint64_t kExpertsMax = 4096;
constexpr uint64_t kContextMax = 1 << 24;

// Reads "<architecture>.<name>" keys of one file.
class KeyReader {
 public:
  KeyReader(const ModelFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  bool Has(std::string_view name) const { return file_.Has(Key(name)); }

  Result<int32_t> Count(std::string_view name, uint64_t min, uint64_t max) const {
    const std::string key = Key(name);
    REM_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(key));
    if (value < min || value > max) {
      return InvalidArgument(key + " = " + std::to_string(value) + ", expected " +
                             std::to_string(min) + " ... " + std::to_string(max));
    }
    return static_cast<int32_t>(value);
  }

  Result<int32_t> CountOr(std::string_view name, uint64_t min, uint64_t max,
                          int32_t fallback) const {
    if (!Has(name)) return fallback;
    return Count(name, min, max);
  }

  // A finite number above 0.
  Result<double> Positive(std::string_view name) const {
    const std::string key = Key(name);
    REM_ASSIGN_OR_RETURN(const double value, file_.GetFloat(key));
    if (!std::isfinite(value) || value <= 0) {
      return InvalidArgument(key + " = " + std::to_string(value) +
                             ", expected a finite number above 0");
    }
    return value;
  }

  Result<double> PositiveOr(std::string_view name, double fallback) const {
    if (!Has(name)) return fallback;
    return Positive(name);
  }

 private:
  const ModelFile& file_;
  std::string prefix_;
};

Status ReadAttention(const KeyReader& keys, ModelShape& shape) {
  REM_ASSIGN_OR_RETURN(shape.heads, keys.Count("attention.head_count", 1, kHeadsMax));
  REM_ASSIGN_OR_RETURN(shape.kv_heads,
                       keys.CountOr("attention.head_count_kv", 1, kHeadsMax, shape.heads));
  if (shape.kv_heads > shape.heads || shape.heads % shape.kv_heads != 0) {
    return InvalidArgument(keys.Key("attention.head_count_kv") + " = " +
                           std::to_string(shape.kv_heads) +
                           " does not divide head_count = " + std::to_string(shape.heads));
  }
  if (!keys.Has("attention.key_length") && shape.width % shape.heads != 0) {
    return InvalidArgument(keys.Key("attention.head_count") + " = " + std::to_string(shape.heads) +
                           " does not divide embedding_length = " + std::to_string(shape.width));
  }
  const int32_t head_width = shape.width / shape.heads;
  REM_ASSIGN_OR_RETURN(shape.key_width,
                       keys.CountOr("attention.key_length", 1, kHeadWidthMax, head_width));
  REM_ASSIGN_OR_RETURN(shape.value_width,
                       keys.CountOr("attention.value_length", 1, kHeadWidthMax, head_width));
  if (shape.key_width < 1 || static_cast<uint64_t>(shape.key_width) > kHeadWidthMax) {
    return InvalidArgument(keys.Key("attention.head_count") + " = " + std::to_string(shape.heads) +
                           " gives heads of " + std::to_string(shape.key_width) + " values");
  }
  REM_ASSIGN_OR_RETURN(shape.rotary_width,
                       keys.CountOr("rope.dimension_count", 2, kHeadWidthMax, shape.key_width));
  if (shape.rotary_width > shape.key_width || shape.rotary_width % 2 != 0) {
    return InvalidArgument(
        keys.Key("rope.dimension_count") + " = " + std::to_string(shape.rotary_width) +
        ", expected an even number up to the head's width " + std::to_string(shape.key_width));
  }
  return Status::Ok();
}

Status ReadFeedForward(const KeyReader& keys, ModelShape& shape) {
  REM_ASSIGN_OR_RETURN(shape.feed_forward_width,
                       keys.Count("feed_forward_length", 1, kFeedForwardWidthMax));
  REM_ASSIGN_OR_RETURN(shape.experts, keys.CountOr("expert_count", 0, kExpertsMax, 0));
  if (shape.experts == 0) return Status::Ok();
  REM_ASSIGN_OR_RETURN(shape.experts_used,
                       keys.Count("expert_used_count", 1, static_cast<uint64_t>(shape.experts)));
  REM_ASSIGN_OR_RETURN(shape.feed_forward_width,
                       keys.CountOr("expert_feed_forward_length", 1, kFeedForwardWidthMax,
                                    shape.feed_forward_width));
  return Status::Ok();
}

Status ReadWindow(const KeyReader& keys, const Family& family, ModelShape& shape) {
  if (family.window_period == 0) return Status::Ok();
  REM_ASSIGN_OR_RETURN(shape.window, keys.Count("attention.sliding_window", 1, kContextMax));
  REM_ASSIGN_OR_RETURN(shape.window_period, keys.CountOr("attention.sliding_window_pattern", 1,
                                                         kLayersMax, family.window_period));
  return Status::Ok();
}

// The tokenizer's list, the declared size and the embedding must tell of one vocabulary.
Status ReadVocabularySize(const ModelFile& file, const Family& family, const KeyReader& keys,
                          ModelShape& shape) {
  const std::string_view name = NameOf(family.globals, TensorRole::kTokenEmbedding);
  const TensorInfo* embedding = file.FindTensor(name);
  if (embedding == nullptr) return InvalidArgument("tensor " + std::string(name) + " is missing");
  const int64_t rows = embedding->view.rows();
  if (rows > INT32_MAX) {
    return InvalidArgument(std::string(name) + " has " + std::to_string(rows) + " rows");
  }
  shape.vocabulary_size = static_cast<int32_t>(rows);
  if (file.Has("tokenizer.ggml.tokens")) {
    REM_ASSIGN_OR_RETURN(const StringArrayView tokens,
                         file.GetStringArray("tokenizer.ggml.tokens"));
    if (static_cast<int64_t>(tokens.size()) != rows) {
      return InvalidArgument(std::string(name) + " has " + std::to_string(rows) +
                             " rows, but tokenizer.ggml.tokens has " +
                             std::to_string(tokens.size()) + " tokens");
    }
  }
  if (keys.Has("vocab_size")) {
    REM_ASSIGN_OR_RETURN(const int32_t declared, keys.Count("vocab_size", 1, INT32_MAX));
    if (declared != rows) {
      return InvalidArgument(keys.Key("vocab_size") + " = " + std::to_string(declared) + ", but " +
                             std::string(name) + " has " + std::to_string(rows) + " rows");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<ModelShape> ReadHyperparameters(const ModelFile& file, const Family& family) {
  const KeyReader keys(file, family.architecture);
  ModelShape shape;
  shape.architecture = family.architecture;
  REM_ASSIGN_OR_RETURN(shape.layers, keys.Count("block_count", 1, kLayersMax));
  if (static_cast<size_t>(shape.layers) > file.tensors().size()) {
    return InvalidArgument(keys.Key("block_count") + " = " + std::to_string(shape.layers) +
                           ", but the file has " + std::to_string(file.tensors().size()) +
                           " tensors");
  }
  REM_ASSIGN_OR_RETURN(shape.width, keys.Count("embedding_length", 1, kWidthMax));
  REM_ASSIGN_OR_RETURN(shape.context_trained, keys.Count("context_length", 1, kContextMax));
  REM_RETURN_IF_ERROR(ReadAttention(keys, shape));
  REM_RETURN_IF_ERROR(ReadFeedForward(keys, shape));
  REM_ASSIGN_OR_RETURN(const double epsilon, keys.Positive("attention.layer_norm_rms_epsilon"));
  shape.norm_epsilon = static_cast<float>(epsilon);
  if (family.embedding_times_root_width) {
    shape.embedding_scale = std::sqrt(static_cast<float>(shape.width));
  }
  REM_RETURN_IF_ERROR(ReadWindow(keys, family, shape));
  REM_RETURN_IF_ERROR(ReadVocabularySize(file, family, keys, shape));
  REM_RETURN_IF_ERROR(ReadRopeScaling(file, family, shape).status());
  REM_RETURN_IF_ERROR(ReadWindowedRopeScaling(file, family).status());
  return shape;
}

Result<RopeScaling> ReadRopeScaling(const ModelFile& file, const Family& family,
                                    const ModelShape& shape) {
  const KeyReader keys(file, family.architecture);
  RopeScaling scaling;
  REM_ASSIGN_OR_RETURN(scaling.base, keys.PositiveOr("rope.freq_base", 10000));
  if (!keys.Has("rope.scaling.type")) return scaling;
  const std::string key = keys.Key("rope.scaling.type");
  REM_ASSIGN_OR_RETURN(const std::string_view kind, file.GetString(key));
  if (kind == "none") return scaling;
  REM_ASSIGN_OR_RETURN(scaling.factor, keys.Positive("rope.scaling.factor"));
  if (kind == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (kind == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    REM_ASSIGN_OR_RETURN(const int32_t original,
                         keys.CountOr("rope.scaling.original_context_length", 1, kContextMax,
                                      shape.context_trained));
    scaling.original_context = original;
    REM_ASSIGN_OR_RETURN(scaling.beta_fast, keys.PositiveOr("rope.scaling.yarn_beta_fast", 32));
    REM_ASSIGN_OR_RETURN(scaling.beta_slow, keys.PositiveOr("rope.scaling.yarn_beta_slow", 1));
    REM_ASSIGN_OR_RETURN(scaling.attention_factor,
                         keys.PositiveOr("rope.scaling.yarn_attn_factor", 1));
  } else {
    return Unsupported(key + " = \"" + std::string(kind) +
                       "\", this build knows none, linear and yarn");
  }
  return scaling;
}

Result<RopeScaling> ReadWindowedRopeScaling(const ModelFile& file, const Family& family) {
  const KeyReader keys(file, family.architecture);
  RopeScaling scaling;
  REM_ASSIGN_OR_RETURN(scaling.base,
                       keys.PositiveOr("rope.freq_base_swa", family.windowed_rope_base));
  return scaling;
}

}  // namespace remontoir
