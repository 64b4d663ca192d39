// Weights by role into the backend, then the program.
#include "model/model_loader.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "kernels/dequantise.h"
#include "model/hyperparameters.h"
#include "model/latent_up.h"
#include "model/program_builder.h"

namespace remontoir {
namespace {

// Rows of one round whose logits may be wanted: a scored prompt takes them in pieces of this size.
constexpr int32_t kLogitRowsMax = 128;

class WeightLoader {
 public:
  // arena_bytes: what comes after the weights.
  WeightLoader(const ModelFile& file, const TensorTable& tensors, Backend& backend,
               int64_t arena_bytes, const LoadProgress& progress)
      : file_(file),
        tensors_(tensors),
        backend_(backend),
        arena_bytes_(arena_bytes),
        progress_(progress) {}

  Result<ModelWeights> Load(const ModelShape& shape) {
    ModelWeights weights;
    const TensorInfo* embedding = tensors_.Global(TensorRole::kTokenEmbedding);
    REM_ASSIGN_OR_RETURN(weights.embedding,
                         backend_.AddEmbedding(embedding->view, std::string(embedding->name)));
    const TensorInfo* output = tensors_.Global(TensorRole::kOutput);
    REM_ASSIGN_OR_RETURN(weights.output, Add(output != nullptr ? output : embedding));
    REM_ASSIGN_OR_RETURN(weights.output_norm, Add(tensors_.Global(TensorRole::kOutputNorm)));
    for (int layer = 0; layer < shape.layers; ++layer) {
      REM_ASSIGN_OR_RETURN(LayerWeights loaded, LoadLayer(layer, shape));
      weights.layers.push_back(loaded);
    }
    backend_.PackWeights([this](WeightId id, int64_t done_bytes, int64_t total_bytes) {
      const TensorInfo* tensor = matrices_.at(id);
      // Rows of the embedding are read where they lie.
      if (tensor != tensors_.Global(TensorRole::kTokenEmbedding)) file_.DropPages(*tensor);
      weights_done_bytes_ = done_bytes;
      if (progress_) progress_(done_bytes, total_bytes + arena_bytes_);
    });
    return weights;
  }

  // Progress of the arena, after Load.
  MemoryProgress ArenaProgress() const {
    if (!progress_) return nullptr;
    return [this](int64_t done_bytes, int64_t total_bytes) {
      progress_(weights_done_bytes_ + done_bytes, weights_done_bytes_ + total_bytes);
    };
  }

 private:
  Result<LayerWeights> LoadLayer(int layer, const ModelShape& shape) {
    LayerWeights weights;
    const struct {
      TensorRole role;
      WeightId& id;
    } parts[] = {
        {TensorRole::kAttentionNorm, weights.attention_norm},
        {TensorRole::kQuery, weights.query.matrix},
        {TensorRole::kKey, weights.key.matrix},
        {TensorRole::kValue, weights.value.matrix},
        {TensorRole::kQueryBias, weights.query.bias},
        {TensorRole::kKeyBias, weights.key.bias},
        {TensorRole::kValueBias, weights.value.bias},
        {TensorRole::kQueryDown, weights.query_down.matrix},
        {TensorRole::kQueryDownNorm, weights.query_down_norm},
        {TensorRole::kQueryUp, weights.query_up.matrix},
        {TensorRole::kKeyValueDown, weights.key_value_down.matrix},
        {TensorRole::kKeyValueDownNorm, weights.key_value_down_norm},
        {TensorRole::kKeyUp, weights.key_up},
        {TensorRole::kValueUp, weights.value_up},
        {TensorRole::kQueryNorm, weights.query_norm},
        {TensorRole::kKeyNorm, weights.key_norm},
        {TensorRole::kSinkLogits, weights.sink_logits},
        {TensorRole::kAttentionOutput, weights.attention_output.matrix},
        {TensorRole::kAttentionOutputBias, weights.attention_output.bias},
        {TensorRole::kAttentionPostNorm, weights.attention_post_norm},
        {TensorRole::kFeedForwardNorm, weights.feed_forward_norm},
        {TensorRole::kFeedForwardPostNorm, weights.feed_forward_post_norm},
        {TensorRole::kGate, weights.dense.gate.matrix},
        {TensorRole::kUp, weights.dense.up.matrix},
        {TensorRole::kDown, weights.dense.down.matrix},
        {TensorRole::kRouter, weights.router.matrix},
        {TensorRole::kRouterBias, weights.router.bias},
        {TensorRole::kChoiceBias, weights.choice_bias},
        {TensorRole::kExpertGate, weights.experts.gate.matrix},
        {TensorRole::kExpertUp, weights.experts.up.matrix},
        {TensorRole::kExpertDown, weights.experts.down.matrix},
        {TensorRole::kExpertGateBias, weights.experts.gate.bias},
        {TensorRole::kExpertUpBias, weights.experts.up.bias},
        {TensorRole::kExpertDownBias, weights.experts.down.bias},
        {TensorRole::kSharedExpertRouter, weights.shared_expert_router},
        {TensorRole::kSharedExpertGate, weights.shared_expert.gate.matrix},
        {TensorRole::kSharedExpertUp, weights.shared_expert.up.matrix},
        {TensorRole::kSharedExpertDown, weights.shared_expert.down.matrix},
    };
    for (const auto& part : parts) {
      const TensorInfo* tensor = tensors_.Layer(layer, part.role);
      if (tensor == nullptr) continue;  // optional, as ResolveTensors found
      const bool fused = part.role == TensorRole::kKeyUp || part.role == TensorRole::kValueUp;
      if (fused && shape.latent.fused_up) continue;
      REM_ASSIGN_OR_RETURN(part.id, Add(tensor, IsExpertMatrix(part.role)));
    }
    if (shape.latent.fused_up) REM_RETURN_IF_ERROR(AddFusedUp(layer, weights));
    return weights;
  }

  Status AddFusedUp(int layer, LayerWeights& weights) {
    const TensorInfo* key = tensors_.Layer(layer, TensorRole::kKeyUp);
    const TensorInfo* value = tensors_.Layer(layer, TensorRole::kValueUp);
    split_.push_back(SplitLatentUp(key->view, value->view));
    const std::string name(key->name);
    REM_ASSIGN_OR_RETURN(weights.key_up, backend_.AddHeadMatrices(split_.back().key, name));
    matrices_[weights.key_up] = key;
    REM_ASSIGN_OR_RETURN(weights.value_up, backend_.AddHeadMatrices(split_.back().value, name));
    matrices_[weights.value_up] = value;
    return Status::Ok();
  }

  // By rank: a vector, a matrix or the matrices of all experts or heads.
  Result<WeightId> Add(const TensorInfo* tensor, bool of_experts = false) {
    const std::string name(tensor->name);
    auto added = tensor->view.rank == 1   ? backend_.AddVector(tensor->view, name)
                 : tensor->view.rank == 2 ? backend_.AddMatrix(tensor->view, name)
                 : of_experts             ? backend_.AddExpertMatrices(tensor->view, name)
                                          : backend_.AddHeadMatrices(tensor->view, name);
    if (added.ok() && tensor->view.rank != 1) matrices_[*added] = tensor;
    return added;
  }

  const ModelFile& file_;
  const TensorTable& tensors_;
  Backend& backend_;
  const int64_t arena_bytes_;
  const LoadProgress& progress_;
  int64_t weights_done_bytes_ = 0;
  std::map<WeightId, const TensorInfo*> matrices_;
  std::deque<LatentUp> split_;  // until they are packed
};

// What divides the rotary frequencies, and multiplies cos and sin.
struct RopeFactors {
  std::vector<float> divisors;  // none: nothing does
  float magnitude = 1;
};

// Of two sets of factors those for the context that sequences may have.
Result<RopeFactors> ReadRopeFactors(const ModelFile& file, const ModelInfo& info,
                                    int32_t context_max) {
  RopeFactors factors;
  const TensorInfo* tensor = info.tensors.Global(TensorRole::kRopeFactors);
  if (info.tensors.Global(TensorRole::kLongRopeFactors) != nullptr) {
    REM_ASSIGN_OR_RETURN(const LongRope rope, ReadLongRope(file, *info.family, info.shape));
    factors.magnitude = rope.magnitude;
    tensor =
        info.tensors.Global(context_max > rope.original_context ? TensorRole::kLongRopeFactors
                                                                : TensorRole::kShortRopeFactors);
  }
  if (tensor == nullptr) return factors;
  factors.divisors.resize(static_cast<size_t>(tensor->view.columns()));
  DequantiseRow(tensor->view.type, tensor->view.data, tensor->view.columns(),
                factors.divisors.data());
  for (const float factor : factors.divisors) {
    if (!(factor > 0)) {
      return InvalidArgument("tensor " + std::string(tensor->name) + " holds " +
                             std::to_string(factor) + ", expected numbers above 0");
    }
  }
  return factors;
}

}  // namespace

KvLayout MakeKvLayout(const ModelShape& shape, DType kv_type) {
  const KvLayerShape layer = {.kv_heads = shape.kv_heads,
                              .key_width = shape.key_width,
                              .value_width = shape.value_width,
                              .type = kv_type};
  return KvLayout(std::vector<KvLayerShape>(shape.layers, layer));
}

RoundLimits MakeRoundLimits(const ModelShape& shape, const LoadOptions& options) {
  RoundLimits limits;
  limits.rows_max = options.round_tokens_max;
  limits.sequences_max = options.sequences_max;
  limits.logit_rows_max =
      std::max(options.sequences_max, std::min(options.round_tokens_max, kLogitRowsMax));
  limits.context_max = options.context_max > 0 ? options.context_max : shape.context_trained;
  limits.sparse = options.sparse;
  return limits;
}

Result<std::unique_ptr<ModelRunner>> LoadModel(const ModelFile& file, const ModelInfo& info,
                                               std::unique_ptr<Backend> backend,
                                               const LoadOptions& options,
                                               const LoadProgress& progress) {
  ModelShape shape = info.shape;
  const RoundLimits limits = MakeRoundLimits(shape, options);
  REM_ASSIGN_OR_RETURN(const RopeFactors factors, ReadRopeFactors(file, info, limits.context_max));
  REM_ASSIGN_OR_RETURN(const RopeScaling scaling, ReadRopeScaling(file, *info.family, shape));
  shape.rope = MakeRope(info.family->rope_pairing, shape.rotary_width, scaling, factors.divisors,
                        options.rope);
  shape.rope.magnitude *= factors.magnitude;
  if (shape.window > 0) {
    REM_ASSIGN_OR_RETURN(const RopeScaling windowed,
                         ReadWindowedRopeScaling(file, *info.family, shape));
    const bool own_base = info.family->windowed_rope_base > 0;
    const RopeFactors used = own_base ? RopeFactors() : factors;
    shape.windowed_rope = MakeRope(info.family->rope_pairing, shape.rotary_width, windowed,
                                   used.divisors, options.rope);
    shape.windowed_rope.magnitude *= used.magnitude;
  }
  const KvLayout layout = MakeKvLayout(shape, options.kv_type);
  WeightLoader loader(file, info.tensors, *backend,
                      layout.page_bytes() * options.kv_memory.arena_pages, progress);
  REM_ASSIGN_OR_RETURN(const ModelWeights weights, loader.Load(shape));
  REM_RETURN_IF_ERROR(backend->Prepare(BuildProgram(*info.family, shape, weights), layout,
                                       options.kv_memory, limits, loader.ArenaProgress()));
  return std::make_unique<ModelRunner>(std::move(backend), std::move(shape), limits);
}

}  // namespace remontoir
