// A transformer as operations: attention and feed-forward blocks over one residual stream.
#include "model/program_builder.h"

#include <string>

namespace remontoir {
namespace {

class Builder {
 public:
  Builder(const Family& family, const ModelShape& shape) : family_(family), shape_(shape) {
    stream_ = program_.AddActivation("stream", shape.width);
    normed_ = program_.AddActivation("normed", shape.width);
    if (shape.latent.rank > 0) AddLatentActivations();
    queries_ = program_.AddActivation("queries", shape.heads * shape.key_width);
    keys_ = program_.AddActivation("keys", shape.kv_heads * shape.key_width);
    values_ = program_.AddActivation("values", shape.kv_heads * shape.value_width);
    attended_ = program_.AddActivation("attended", shape.heads * shape.value_width);
    block_out_ = program_.AddActivation("block out", shape.width);
    dense_ = AddInner(AnyLayer(&ModelShape::HasDense), "", shape.feed_forward_width);
    shared_ =
        AddInner(AnyLayer(&ModelShape::HasSharedExpert), "shared ", shape.shared_expert_width);
    if (shape.experts > 0) {
      router_ = program_.AddActivation("router", shape.experts);
      experts_.gate = program_.AddActivation("expert gate", shape.expert_width, RowSpace::kExperts);
      experts_.up = program_.AddActivation("expert up", shape.expert_width, RowSpace::kExperts);
      expert_out_ = program_.AddActivation("expert out", shape.width, RowSpace::kExperts);
    }
    if (has_shared_router_) shared_router_ = program_.AddActivation("shared router", 1);
    if (shape.shared_expert_width > 0 || shape.dense_beside_experts) {
      beside_out_ = program_.AddActivation("beside out", shape.width);
    }
    last_ = program_.AddActivation("last", shape.width, RowSpace::kLogits);
  }

  Program Build(const ModelWeights& weights) && {
    Add(EmbedOp{.table = weights.embedding, .out = stream_, .scale = shape_.embedding_scale});
    for (int layer = 0; layer < shape_.layers; ++layer) {
      const LayerWeights& layer_weights = weights.layers[static_cast<size_t>(layer)];
      AddAttention(layer, layer_weights);
      AddFeedForward(layer, layer_weights);
    }
    Add(GatherLogitRowsOp{.in = stream_, .out = last_});
    AddNorm(last_, last_, weights.output_norm);
    // Its errors go straight into the logits, and few rows ask for them.
    Add(LogitsOp{.in = last_,
                 .weight = weights.output,
                 .scale = shape_.logit_scale,
                 .soft_cap = shape_.logit_soft_cap,
                 .fine_activations = fine_but_experts_});
    program_.vocabulary_size = shape_.vocabulary_size;
    program_.experts_used_max = shape_.experts_used;
    return std::move(program_);
  }

 private:
  // What a gated feed-forward block has between its products.
  struct Inner {
    ActivationId gate = kNoActivation;
    ActivationId up = kNoActivation;
  };

  bool AnyLayer(bool (ModelShape::*has)(int32_t) const) const {
    for (int32_t layer = 0; layer < shape_.layers; ++layer) {
      if ((shape_.*has)(layer)) return true;
    }
    return false;
  }

  Inner AddInner(bool wanted, const std::string& name, int32_t width) {
    if (!wanted) return {};
    return {program_.AddActivation(name + "gate", width),
            program_.AddActivation(name + "up", width)};
  }

  void AddLatentActivations() {
    const LatentAttention& latent = shape_.latent;
    if (latent.query_rank > 0) {
      query_latent_ = program_.AddActivation("query latent", latent.query_rank);
    }
    head_queries_ = program_.AddActivation("head queries", shape_.heads * latent.key_width);
    compressed_ = program_.AddActivation("compressed", shape_.key_width);
    head_values_ = program_.AddActivation("head values", shape_.heads * latent.value_width);
  }

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

  // The block's output joins the stream, normed on the way where the model has a post-norm. Of an
  // output that should have been divided by sqrt(divisor) the norm doesn't notice, but for its
  // epsilon, which counts divisor times.
  void AddToStream(WeightId post_norm, float divisor = 1) {
    if (post_norm != kNoWeight) {
      Add(NormOp{.in = block_out_,
                 .out = block_out_,
                 .weight = post_norm,
                 .epsilon = shape_.norm_epsilon * divisor,
                 .group_width = shape_.width});
    }
    Add(AddOp{.in = block_out_, .inout = stream_});
  }

  static MatMulOp::Product ProductOf(const LinearWeights& weights, ActivationId out,
                                     bool fine = false) {
    return {.weight = weights.matrix, .out = out, .bias = weights.bias, .fine_activations = fine};
  }

  void AddProduct(ActivationId in, const LinearWeights& weights, ActivationId out,
                  bool fine = false) {
    MatMulOp product{.in = in, .products = {}, .product_count = 1};
    product.products[0] = ProductOf(weights, out, fine);
    Add(product);
  }

  // Makes queries_, keys_ and values_, but for the rotation.
  void AddProjections(const LayerWeights& weights) {
    MatMulOp projections{.in = normed_, .products = {}, .product_count = 3};
    projections.products[0] = ProductOf(weights.query, queries_, fine_but_experts_);
    // An error in a key or value stays in its page and meets every later row: measured on a small
    // model, a quarter of all that 8-bit activations do to the logits, for 6 % of the products.
    projections.products[1] = ProductOf(weights.key, keys_, true);
    projections.products[2] = ProductOf(weights.value, values_, true);
    Add(projections);
    if (weights.query_norm != kNoWeight) {
      AddNorm(queries_, queries_, weights.query_norm, shape_.key_width);
      AddNorm(keys_, keys_, weights.key_norm, shape_.key_width);
    }
  }

  // The same from latents. The matrices that make keys of the latent are applied to the queries.
  void AddLatentProjections(const LayerWeights& weights) {
    const LatentAttention& latent = shape_.latent;
    const int32_t plain = latent.key_width - shape_.rotary_width;
    const bool two_steps = latent.query_rank > 0;
    MatMulOp down{.in = normed_, .products = {}, .product_count = 2};
    down.products[0] = two_steps ? ProductOf(weights.query_down, query_latent_, fine_but_experts_)
                                 : ProductOf(weights.query, head_queries_, fine_but_experts_);
    down.products[1] = ProductOf(weights.key_value_down, compressed_, true);
    Add(down);
    if (two_steps) {
      AddNorm(query_latent_, query_latent_, weights.query_down_norm, latent.query_rank);
      AddProduct(query_latent_, weights.query_up, head_queries_, fine_but_experts_);
    }
    Add(CopyHeadsOp{.in = compressed_, .out = values_, .width = latent.rank});
    AddNorm(values_, values_, weights.key_value_down_norm, latent.rank);
    Add(CopyHeadsOp{.in = values_, .out = keys_, .width = latent.rank});
    Add(CopyHeadsOp{.in = compressed_,
                    .out = keys_,
                    .in_begin = latent.rank,
                    .out_begin = latent.rank,
                    .width = shape_.rotary_width});
    Add(HeadMatMulOp{.in = head_queries_,
                     .out = queries_,
                     .weight = weights.key_up,
                     .heads = shape_.heads,
                     .in_width = plain,
                     .out_width = latent.rank,
                     .fine_activations = fine_but_experts_});
    Add(CopyHeadsOp{.in = head_queries_,
                    .out = queries_,
                    .heads = shape_.heads,
                    .in_begin = plain,
                    .out_begin = latent.rank,
                    .width = shape_.rotary_width});
  }

  // From what attention gave each head of the latent to the block's output.
  void AddLatentOutput(const LayerWeights& weights) {
    Add(HeadMatMulOp{.in = attended_,
                     .out = head_values_,
                     .weight = weights.value_up,
                     .heads = shape_.heads,
                     .in_width = shape_.latent.rank,
                     .out_width = shape_.latent.value_width,
                     .fine_activations = fine_but_experts_});
    AddProduct(head_values_, weights.attention_output, block_out_, fine_but_experts_);
  }

  void AddAttention(int layer, const LayerWeights& weights) {
    const bool is_latent = shape_.latent.rank > 0;
    AddNorm(stream_, normed_, weights.attention_norm);
    if (is_latent) {
      AddLatentProjections(weights);
    } else {
      AddProjections(weights);
    }
    const bool windowed = shape_.IsWindowed(layer);
    Add(RopeIntoKvOp{.queries = queries_,
                     .keys = keys_,
                     .values = values_,
                     .layer = layer,
                     .heads = shape_.heads,
                     .rope = windowed ? shape_.windowed_rope : shape_.rope,
                     .rotary_begin = shape_.latent.rank});
    Add(AttentionOp{.queries = queries_,
                    .out = attended_,
                    .layer = layer,
                    .heads = shape_.heads,
                    .scale = shape_.attention_scale,
                    .soft_cap = shape_.attention_soft_cap,
                    .window = windowed ? shape_.window : 0,
                    .sink_logits = weights.sink_logits,
                    .temperature_length = shape_.temperature_length});
    if (is_latent) {
      AddLatentOutput(weights);
    } else {
      AddProduct(attended_, weights.attention_output, block_out_, fine_but_experts_);
    }
    AddToStream(weights.attention_post_norm);
  }

  void AddFeedForward(int layer, const LayerWeights& weights) {
    AddNorm(stream_, normed_, weights.feed_forward_norm);
    const bool experts = shape_.HasExperts(layer);
    if (experts) AddExperts(layer, weights);
    if (shape_.HasSharedExpert(layer)) AddSharedExpert(weights);
    if (!shape_.HasDense(layer)) return AddToStream(weights.feed_forward_post_norm);
    AddGated(weights.dense, dense_, experts ? beside_out_ : block_out_);
    if (experts) Add(AddOp{.in = beside_out_, .inout = block_out_});
    // Family::dense_beside_experts
    AddToStream(weights.feed_forward_post_norm, experts ? 2.0F : 1.0F);
  }

  void AddGated(const FeedForwardWeights& weights, const Inner& inner, ActivationId out) {
    MatMulOp products{.in = normed_, .products = {}, .product_count = 2};
    products.products[0] = ProductOf(weights.gate, inner.gate);
    products.products[1] = ProductOf(weights.up, inner.up);
    Add(products);
    Add(GatedActivationOp{
        .gate = inner.gate, .up = inner.up, .out = inner.gate, .kind = family_.gate});
    // Gated values are the most uneven: in 8 bits their large ones drown the small ones of a block.
    AddProduct(inner.gate, weights.down, out, true);
  }

  void AddExperts(int layer, const LayerWeights& weights) {
    AddProduct(normed_, weights.router, router_);
    Add(RouteOp{.logits = router_,
                .experts = shape_.experts,
                .experts_used = shape_.experts_used,
                .renormalise = shape_.renormalise_gates,
                .score = shape_.router_score,
                .soft_cap = shape_.router_soft_cap,
                .weight_scale = shape_.gate_scale,
                .groups = shape_.expert_groups,
                .groups_used = shape_.expert_groups_used,
                .choice_bias = weights.choice_bias,
                .layer = layer});
    GroupedMatMulOp products{.in = normed_, .products = {}, .product_count = 2};
    products.products[0] = ProductOf(weights.experts.gate, experts_.gate);
    products.products[1] = ProductOf(weights.experts.up, experts_.up);
    Add(products);
    Add(GatedActivationOp{
        .gate = experts_.gate, .up = experts_.up, .out = experts_.gate, .kind = family_.gate});
    GroupedMatMulOp down{.in = experts_.gate, .products = {}, .product_count = 1};
    down.products[0] = ProductOf(weights.experts.down, expert_out_);
    Add(down);
    Add(ExpertCombineOp{.in = expert_out_, .out = block_out_});
  }

  // Joins what the chosen experts gave.
  void AddSharedExpert(const LayerWeights& weights) {
    AddGated(weights.shared_expert, shared_, beside_out_);
    if (has_shared_router_) {
      AddProduct(normed_, {.matrix = weights.shared_expert_router}, shared_router_);
      Add(SigmoidGateOp{.gate = shared_router_, .inout = beside_out_});
    }
    Add(AddOp{.in = beside_out_, .inout = block_out_});
  }

  const Family& family_;
  const ModelShape& shape_;
  // A router turns a small error into another expert; attention and the head are the smaller part
  // of such a model.
  const bool fine_but_experts_ = shape_.experts > 0;
  const bool has_shared_router_ = !NameOf(family_.layer, TensorRole::kSharedExpertRouter).empty();
  Program program_;
  ActivationId stream_, normed_, queries_, keys_, values_, attended_, block_out_, last_;
  Inner dense_, experts_, shared_;
  // Latent attention: the query's latent, what is kept of the stream for keys and values (the
  // latent before its norm, and the values to be rotated), and the heads' own queries and results.
  ActivationId query_latent_ = kNoActivation;
  ActivationId compressed_ = kNoActivation;
  ActivationId head_queries_ = kNoActivation;
  ActivationId head_values_ = kNoActivation;
  ActivationId router_ = kNoActivation;
  ActivationId expert_out_ = kNoActivation;
  ActivationId shared_router_ = kNoActivation;
  ActivationId beside_out_ = kNoActivation;
};

}  // namespace

Program BuildProgram(const Family& family, const ModelShape& shape, const ModelWeights& weights) {
  return Builder(family, shape).Build(weights);
}

}  // namespace remontoir
