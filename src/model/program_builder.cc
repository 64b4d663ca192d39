// A transformer as operations: attention and feed-forward blocks over one residual stream.
#include "model/program_builder.h"

#include <cmath>

namespace remontoir {
namespace {

class Builder {
 public:
  Builder(const Family& family, const ModelShape& shape) : family_(family), shape_(shape) {
    stream_ = program_.AddActivation("stream", shape.width);
    normed_ = program_.AddActivation("normed", shape.width);
    queries_ = program_.AddActivation("queries", shape.heads * shape.key_width);
    keys_ = program_.AddActivation("keys", shape.kv_heads * shape.key_width);
    values_ = program_.AddActivation("values", shape.kv_heads * shape.value_width);
    attended_ = program_.AddActivation("attended", shape.heads * shape.value_width);
    block_out_ = program_.AddActivation("block out", shape.width);
    const RowSpace inner = shape.experts > 0 ? RowSpace::kExperts : RowSpace::kTokens;
    gate_ = program_.AddActivation("gate", shape.feed_forward_width, inner);
    up_ = program_.AddActivation("up", shape.feed_forward_width, inner);
    if (shape.experts > 0) {
      router_ = program_.AddActivation("router", shape.experts);
      expert_out_ = program_.AddActivation("expert out", shape.width, RowSpace::kExperts);
    }
    last_ = program_.AddActivation("last", shape.width, RowSpace::kLogits);
  }

  Program Build(const ModelWeights& weights) && {
    Add(EmbedOp{.table = weights.embedding, .out = stream_, .scale = shape_.embedding_scale});
    for (int layer = 0; layer < shape_.layers; ++layer) {
      AddAttention(layer, weights.layers[layer]);
      if (shape_.experts > 0) {
        AddExpertFeedForward(layer, weights.layers[layer]);
      } else {
        AddDenseFeedForward(weights.layers[layer]);
      }
    }
    Add(GatherLogitRowsOp{.in = stream_, .out = last_});
    AddNorm(last_, last_, weights.output_norm);
    // Its errors go straight into the logits, and few rows ask for them.
    Add(LogitsOp{.in = last_, .weight = weights.output, .fine_activations = fine_but_experts_});
    program_.vocabulary_size = shape_.vocabulary_size;
    program_.experts_used_max = shape_.experts_used;
    return std::move(program_);
  }

 private:
  void Add(Operation operation) { program_.operations.push_back(std::move(operation)); }

  void AddNorm(ActivationId in, ActivationId out, WeightId weight, int32_t group_width) {
    Add(NormOp{.in = in,
               .out = out,
               .weight = weight,
               .epsilon = shape_.norm_epsilon,
               .group_width = group_width});
  }

  void AddNorm(ActivationId in, ActivationId out, WeightId weight) {
    AddNorm(in, out, weight, shape_.width);
  }

  // The block's output joins the stream, normed on the way where the model has a post-norm.
  void AddToStream(WeightId post_norm) {
    if (post_norm != kNoWeight) AddNorm(block_out_, block_out_, post_norm);
    Add(AddOp{.in = block_out_, .inout = stream_});
  }

  void AddProduct(ActivationId in, WeightId weight, ActivationId out, bool fine = false) {
    MatMulOp product{.in = in, .products = {}, .product_count = 1};
    product.products[0] = {.weight = weight, .out = out, .fine_activations = fine};
    Add(product);
  }

  void AddAttention(int layer, const LayerWeights& weights) {
    AddNorm(stream_, normed_, weights.attention_norm);
    MatMulOp projections{.in = normed_, .products = {}, .product_count = 3};
    projections.products[0] = {weights.query, queries_, weights.query_bias, fine_but_experts_};
    // An error in a key or value stays in its page and meets every later row: measured on a small
    // model, a quarter of all that 8-bit activations do to the logits, for 6 % of the products.
    projections.products[1] = {weights.key, keys_, weights.key_bias, true};
    projections.products[2] = {weights.value, values_, weights.value_bias, true};
    Add(projections);
    if (weights.query_norm != kNoWeight) {
      AddNorm(queries_, queries_, weights.query_norm, shape_.key_width);
      AddNorm(keys_, keys_, weights.key_norm, shape_.key_width);
    }
    const bool windowed = shape_.IsWindowed(layer);
    Add(RopeIntoKvOp{.queries = queries_,
                     .keys = keys_,
                     .values = values_,
                     .layer = layer,
                     .heads = shape_.heads,
                     .rope = windowed ? shape_.windowed_rope : shape_.rope});
    Add(AttentionOp{.queries = queries_,
                    .out = attended_,
                    .layer = layer,
                    .heads = shape_.heads,
                    .scale = 1 / std::sqrt(static_cast<float>(shape_.key_width)),
                    .window = windowed ? shape_.window : 0});
    AddProduct(attended_, weights.attention_output, block_out_, fine_but_experts_);
    AddToStream(weights.attention_post_norm);
  }

  void AddDenseFeedForward(const LayerWeights& weights) {
    AddNorm(stream_, normed_, weights.feed_forward_norm);
    MatMulOp inner{.in = normed_, .products = {}, .product_count = 2};
    inner.products[0] = {.weight = weights.gate, .out = gate_};
    inner.products[1] = {.weight = weights.up, .out = up_};
    Add(inner);
    Add(GatedActivationOp{.gate = gate_, .up = up_, .out = gate_, .kind = family_.gate});
    // Gated values are the most uneven: in 8 bits their large ones drown the small ones of a block.
    AddProduct(gate_, weights.down, block_out_, true);
    AddToStream(weights.feed_forward_post_norm);
  }

  void AddExpertFeedForward(int layer, const LayerWeights& weights) {
    AddNorm(stream_, normed_, weights.feed_forward_norm);
    AddProduct(normed_, weights.router, router_);
    Add(RouteOp{.logits = router_,
                .experts = shape_.experts,
                .experts_used = shape_.experts_used,
                .renormalise = family_.renormalise_gates,
                .layer = layer});
    GroupedMatMulOp inner{.in = normed_, .products = {}, .product_count = 2};
    inner.products[0] = {.weight = weights.gate, .out = gate_};
    inner.products[1] = {.weight = weights.up, .out = up_};
    Add(inner);
    Add(GatedActivationOp{.gate = gate_, .up = up_, .out = gate_, .kind = family_.gate});
    GroupedMatMulOp down{.in = gate_, .products = {}, .product_count = 1};
    down.products[0] = {.weight = weights.down, .out = expert_out_};
    Add(down);
    Add(ExpertCombineOp{.in = expert_out_, .out = block_out_});
    AddToStream(weights.feed_forward_post_norm);
  }

  const Family& family_;
  const ModelShape& shape_;
  // A router turns a small error into another expert; attention and the head are the smaller part
  // of such a model.
  const bool fine_but_experts_ = shape_.experts > 0;
  Program program_;
  ActivationId stream_, normed_, queries_, keys_, values_, attended_, block_out_, gate_, up_, last_;
  ActivationId router_ = kNoActivation;
  ActivationId expert_out_ = kNoActivation;
};

}  // namespace

Program BuildProgram(const Family& family, const ModelShape& shape, const ModelWeights& weights) {
  return Builder(family, shape).Build(weights);
}

}  // namespace remontoir
