// Checks of single values and of how they fit together.
#include "model/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/key_reader.h"

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

Status ReadHeads(const KeyReader& keys, ModelShape& shape) {
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

Status ExpectCount(const KeyReader& keys, std::string_view name, int32_t expected) {
  if (!keys.Has(name)) return Status::Ok();
  REM_ASSIGN_OR_RETURN(const int32_t found, keys.Count(name, 0, INT32_MAX));
  if (found == expected) return Status::Ok();
  return InvalidArgument(keys.Key(name) + " = " + std::to_string(found) + ", expected " +
                         std::to_string(expected));
}

// Newer files give the pages' widths, and the heads' under names of their own; older ones, in which
// matrices up to the heads are fused, the heads' alone.
Status ReadLatentHeads(const KeyReader& keys, ModelShape& shape) {
  LatentAttention& latent = shape.latent;
  REM_ASSIGN_OR_RETURN(shape.heads, keys.Count("attention.head_count", 1, kHeadsMax));
  REM_ASSIGN_OR_RETURN(latent.rank, keys.Count("attention.kv_lora_rank", 1, kHeadWidthMax));
  REM_ASSIGN_OR_RETURN(latent.query_rank, keys.CountOr("attention.q_lora_rank", 0, kWidthMax, 0));
  REM_ASSIGN_OR_RETURN(shape.rotary_width, keys.Count("rope.dimension_count", 2, kHeadWidthMax));
  shape.kv_heads = 1;
  shape.key_width = latent.rank + shape.rotary_width;
  shape.value_width = latent.rank;
  latent.fused_up = !keys.Has("attention.key_length_mla");
  const std::string_view key_name =
      latent.fused_up ? "attention.key_length" : "attention.key_length_mla";
  REM_ASSIGN_OR_RETURN(latent.key_width, keys.Count(key_name, 1, kHeadWidthMax));
  REM_ASSIGN_OR_RETURN(
      latent.value_width,
      keys.Count(latent.fused_up ? "attention.value_length" : "attention.value_length_mla", 1,
                 kHeadWidthMax));
  if (shape.rotary_width >= latent.key_width || shape.rotary_width % 2 != 0) {
    return InvalidArgument(keys.Key("rope.dimension_count") + " = " +
                           std::to_string(shape.rotary_width) + ", expected an even number below " +
                           std::string(key_name) + " = " + std::to_string(latent.key_width));
  }
  if (static_cast<uint64_t>(shape.key_width) > kHeadWidthMax) {
    return InvalidArgument(keys.Key("attention.kv_lora_rank") + " = " +
                           std::to_string(latent.rank) + ", expected at most " +
                           std::to_string(kHeadWidthMax) + " with rope.dimension_count");
  }
  if (latent.fused_up) return ExpectCount(keys, "attention.head_count_kv", shape.heads);
  REM_RETURN_IF_ERROR(ExpectCount(keys, "attention.head_count_kv", 1));
  REM_RETURN_IF_ERROR(ExpectCount(keys, "attention.key_length", shape.key_width));
  return ExpectCount(keys, "attention.value_length", shape.value_width);
}

// A key that this build would pass by although it changes what the model computes.
Status RefuseKey(const KeyReader& keys, std::string_view name) {
  if (!keys.Has(name)) return Status::Ok();
  return Unsupported(keys.Key(name) + ": this build has no such scaling, expected no such key");
}

Status ReadScores(const KeyReader& keys, const Family& family, ModelShape& shape) {
  const bool odd_scale = family.layers_of_odd_query_scale == shape.layers;
  const int32_t squared = odd_scale ? std::max(1, shape.width / shape.heads) : shape.QueryWidth();
  shape.attention_scale = family.attention_scale > 0 ? family.attention_scale
                                                     : 1 / std::sqrt(static_cast<float>(squared));
  for (const std::string_view name : {"attention.scale", "attention.output_scale"}) {
    if (!keys.Has(name)) continue;
    REM_ASSIGN_OR_RETURN(const double scale, keys.Positive(name));
    shape.attention_scale = static_cast<float>(scale);
  }
  REM_RETURN_IF_ERROR(RefuseKey(keys, "attention.temperature_scale"));
  REM_ASSIGN_OR_RETURN(shape.temperature_length,
                       keys.CountOr("attention.temperature_length", 0, kContextMax, 0));
  if (shape.temperature_length == 1) {
    return InvalidArgument(keys.Key("attention.temperature_length") +
                           " = 1, expected 0 (none) or at least 2");
  }
  REM_ASSIGN_OR_RETURN(shape.attention_soft_cap,
                       keys.CapOr("attn_logit_softcapping", family.attention_soft_cap));
  REM_ASSIGN_OR_RETURN(shape.logit_soft_cap,
                       keys.CapOr("final_logit_softcapping", family.logit_soft_cap));
  REM_ASSIGN_OR_RETURN(const double logit_scale,
                       keys.PositiveOr("logit_scale", family.logit_scale));
  shape.logit_scale = static_cast<float>(logit_scale);
  return Status::Ok();
}

Status ReadRouter(const KeyReader& keys, ModelShape& shape) {
  constexpr int32_t kSoftmax = 1;
  constexpr int32_t kSigmoid = 2;
  REM_ASSIGN_OR_RETURN(const int32_t score,
                       keys.CountOr("expert_gating_func", kSoftmax, kSigmoid, kSoftmax));
  shape.router_score = score == kSigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
  REM_ASSIGN_OR_RETURN(shape.router_soft_cap, keys.CapOr("router_logit_softcapping", 0));
  // Some converters write 0 for "none".
  REM_ASSIGN_OR_RETURN(const float scale, keys.CapOr("expert_weights_scale", 1));
  shape.gate_scale = scale == 0 ? 1 : scale;
  REM_ASSIGN_OR_RETURN(const int32_t groups,
                       keys.CountOr("expert_group_count", 0, kExpertGroupsMax, 1));
  shape.expert_groups = std::max(1, groups);
  if (shape.experts % shape.expert_groups != 0) {
    return InvalidArgument(keys.Key("expert_group_count") + " = " + std::to_string(groups) +
                           " does not divide expert_count = " + std::to_string(shape.experts));
  }
  shape.expert_groups_used = shape.expert_groups;
  if (shape.expert_groups == 1) return Status::Ok();
  const int32_t group_size = shape.experts / shape.expert_groups;
  const int32_t used_min = (shape.experts_used + group_size - 1) / group_size;
  REM_ASSIGN_OR_RETURN(
      shape.expert_groups_used,
      keys.CountOr("expert_group_used_count", static_cast<uint64_t>(used_min),
                   static_cast<uint64_t>(shape.expert_groups), shape.expert_groups));
  return Status::Ok();
}

// The experts that every token goes to are one wide one.
Status ReadSharedExperts(const KeyReader& keys, ModelShape& shape) {
  int32_t width = shape.feed_forward_width;
  if (keys.Has("expert_shared_count")) {
    REM_ASSIGN_OR_RETURN(const int32_t count, keys.Count("expert_shared_count", 0, kExpertsMax));
    if (int64_t{count} * shape.expert_width > static_cast<int64_t>(kFeedForwardWidthMax)) {
      return InvalidArgument(keys.Key("expert_shared_count") + " = " + std::to_string(count) +
                             ", expected at most " + std::to_string(kFeedForwardWidthMax) +
                             " values in all");
    }
    width = count * shape.expert_width;
  }
  REM_ASSIGN_OR_RETURN(shape.shared_expert_width, keys.CountOr("expert_shared_feed_forward_length",
                                                               1, kFeedForwardWidthMax, width));
  return Status::Ok();
}

Status ReadExperts(const KeyReader& keys, const Family& family, ModelShape& shape) {
  const bool may_have = !NameOf(family.layer, TensorRole::kRouter).empty();
  const bool may_lack = !NameOf(family.layer, TensorRole::kDown).empty();
  if (may_lack) {
    REM_ASSIGN_OR_RETURN(shape.experts,
                         keys.CountOr("expert_count", 0, may_have ? kExpertsMax : 0, 0));
  } else {
    REM_ASSIGN_OR_RETURN(shape.experts, keys.Count("expert_count", 1, kExpertsMax));
  }
  if (shape.experts == 0) return Status::Ok();
  REM_ASSIGN_OR_RETURN(shape.experts_used,
                       keys.Count("expert_used_count", 1, static_cast<uint64_t>(shape.experts)));
  REM_ASSIGN_OR_RETURN(shape.expert_width,
                       keys.CountOr("expert_feed_forward_length", 1, kFeedForwardWidthMax,
                                    shape.feed_forward_width));
  REM_ASSIGN_OR_RETURN(shape.renormalise_gates,
                       keys.FlagOr("expert_weights_norm", family.renormalise_gates));
  REM_RETURN_IF_ERROR(ReadRouter(keys, shape));
  if (family.dense_beside_experts && !shape.dense_beside_experts) shape.router_soft_cap = 0;
  if (may_lack) {
    REM_ASSIGN_OR_RETURN(
        shape.leading_dense_layers,
        keys.CountOr("leading_dense_block_count", 0, static_cast<uint64_t>(shape.layers), 0));
  }
  if (!NameOf(family.layer, TensorRole::kSharedExpertDown).empty()) {
    return ReadSharedExperts(keys, shape);
  }
  return Status::Ok();
}

Status ReadFeedForward(const ModelFile& file, const KeyReader& keys, const Family& family,
                       ModelShape& shape) {
  REM_ASSIGN_OR_RETURN(shape.feed_forward_width,
                       keys.Count("feed_forward_length", 1, kFeedForwardWidthMax));
  if (family.dense_beside_experts) {  // no key says so
    const std::string name = "blk.0." + std::string(NameOf(family.layer, TensorRole::kUp));
    shape.dense_beside_experts = file.FindTensor(name) != nullptr;
  }
  return ReadExperts(keys, family, shape);
}

Status ReadWindow(const KeyReader& keys, const Family& family, ModelShape& shape) {
  if (family.windows == Windows::kNone) return Status::Ok();
  if (family.windows == Windows::kOptional) {
    REM_ASSIGN_OR_RETURN(shape.window, keys.CountOr("attention.sliding_window", 0, kContextMax, 0));
  } else {
    REM_ASSIGN_OR_RETURN(shape.window, keys.Count("attention.sliding_window", 1, kContextMax));
  }
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
  const KeyReader keys(file, family);
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
  const bool is_latent = !NameOf(family.layer, TensorRole::kKeyValueDown).empty();
  REM_RETURN_IF_ERROR(is_latent ? ReadLatentHeads(keys, shape) : ReadHeads(keys, shape));
  REM_RETURN_IF_ERROR(ReadScores(keys, family, shape));
  REM_RETURN_IF_ERROR(ReadFeedForward(file, keys, family, shape));
  REM_ASSIGN_OR_RETURN(const double epsilon, keys.Positive("attention.layer_norm_rms_epsilon"));
  shape.norm_epsilon = static_cast<float>(epsilon);
  if (family.embedding_times_root_width) {
    shape.embedding_scale = std::sqrt(static_cast<float>(shape.width));
  } else {
    REM_ASSIGN_OR_RETURN(const double scale,
                         keys.PositiveOr("embedding_scale", family.embedding_scale));
    shape.embedding_scale = static_cast<float>(scale);
  }
  REM_RETURN_IF_ERROR(ReadWindow(keys, family, shape));
  REM_RETURN_IF_ERROR(ReadVocabularySize(file, family, keys, shape));
  REM_ASSIGN_OR_RETURN(const RopeScaling scaling, ReadRopeScaling(file, family, shape));
  if (scaling.score_multiplier > 0) {
    const double magnitude = 1 + scaling.score_multiplier * std::log(scaling.factor);
    shape.attention_scale *= static_cast<float>(magnitude * magnitude);
  }
  REM_RETURN_IF_ERROR(ReadWindowedRopeScaling(file, family, shape).status());
  return shape;
}

Result<RopeScaling> ReadRopeScaling(const ModelFile& file, const Family& family,
                                    const ModelShape& shape) {
  const KeyReader keys(file, family);
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
    scaling.yarn_range_is_whole = family.yarn_range_is_whole;
    REM_ASSIGN_OR_RETURN(const int32_t original,
                         keys.CountOr("rope.scaling.original_context_length", 1, kContextMax,
                                      shape.context_trained));
    scaling.original_context = original;
    REM_ASSIGN_OR_RETURN(scaling.beta_fast,
                         keys.PositiveOr("rope.scaling.yarn_beta_fast", family.yarn_beta_fast));
    REM_ASSIGN_OR_RETURN(scaling.beta_slow, keys.PositiveOr("rope.scaling.yarn_beta_slow", 1));
    REM_ASSIGN_OR_RETURN(scaling.attention_factor,
                         keys.PositiveOr("rope.scaling.yarn_attn_factor", 1));
    REM_ASSIGN_OR_RETURN(scaling.score_multiplier,
                         keys.CapOr("rope.scaling.yarn_log_multiplier", 0));
  } else {
    return Unsupported(key + " = \"" + std::string(kind) +
                       "\", this build knows none, linear and yarn");
  }
  return scaling;
}

Result<RopeScaling> ReadWindowedRopeScaling(const ModelFile& file, const Family& family,
                                            const ModelShape& shape) {
  const KeyReader keys(file, family);
  RopeScaling scaling;
  if (family.windowed_rope_base > 0) {
    scaling.base = family.windowed_rope_base;
  } else {
    REM_ASSIGN_OR_RETURN(scaling, ReadRopeScaling(file, family, shape));
  }
  REM_ASSIGN_OR_RETURN(scaling.base, keys.PositiveOr("rope.freq_base_swa", scaling.base));
  return scaling;
}

Result<LongRope> ReadLongRope(const ModelFile& file, const Family& family,
                              const ModelShape& shape) {
  const KeyReader keys(file, family);
  LongRope rope;
  REM_ASSIGN_OR_RETURN(rope.original_context, keys.CountOr("rope.scaling.original_context_length",
                                                           1, kContextMax, shape.context_trained));
  REM_ASSIGN_OR_RETURN(const double magnitude, keys.PositiveOr("rope.scaling.attn_factor", 1));
  rope.magnitude = static_cast<float>(magnitude);
  return rope;
}

}  // namespace remontoir
