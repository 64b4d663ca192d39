// A hand-made model of a few thousand weights: its program, its tensors, and what it computes in
// double precision, written as plainly as can be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "kernels/dequantise.h"
#include "tensor/block_layouts.h"
#include "tensor/half.h"

namespace remontoir::testing {

struct TinyShape {
  std::string name;
  DType type = DType::kF32;  // of matrices: kF32, kF16, kQ8_0 or kQ4_0
  DType kv_type = DType::kF32;
  int32_t layers = 2;
  int32_t width = 64;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t key_width = 32;
  int32_t value_width = 16;
  int32_t feed_forward = 96;
  int32_t vocabulary = 50;
  int32_t experts = 0;  // 0: dense
  int32_t experts_used = 2;
  int32_t window = 0;  // of the second layer
  float soft_cap = 0;  // of attention and logits
  bool sinks = false;
  bool biases = false;
  bool head_norms = false;  // of queries and keys
  bool expert_biases = false;
  bool shared_expert = false;  // as wide as the others, behind a gate of its own
  bool fine = false;           // keys, values, the way down and the head take fine activations
  GateKind gate = GateKind::kSilu;
  RopePairing pairing = RopePairing::kInterleaved;
};

// A tensor's bytes and what they stand for.
struct TinyTensor {
  TensorView view;
  std::vector<std::byte> bytes;
  std::vector<float> values;

  double at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * view.columns() + column)];
  }
};

class TinyModel {
 public:
  explicit TinyModel(TinyShape shape) : shape_(std::move(shape)), random_(7) {
    const TinyShape& s = shape_;
    embedding_ = Matrix(s.vocabulary, s.width, 1);
    head_ = Matrix(s.vocabulary, s.width, 1);
    final_norm_ = Vector(s.width, 1);
    for (int32_t i = 0; i < s.layers; ++i) layers_.push_back(MakeLayer());
  }

  const TinyShape& shape() const { return shape_; }

  KvLayout layout() const {
    return KvLayout(std::vector<KvLayerShape>(
        static_cast<size_t>(shape_.layers),
        {shape_.kv_heads, shape_.key_width, shape_.value_width, shape_.kv_type, 0}));
  }

  // Loads the weights and returns the program that computes logits().
  Program Load(Backend& backend) const;

  // Logits of every token of a sequence, in double precision: [tokens][vocabulary].
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens) const;

 private:
  using Row = std::vector<double>;
  struct Layer {
    const TinyTensor *attention_norm, *query, *key, *value, *query_bias, *query_norm, *key_norm,
        *sinks, *output, *feed_forward_norm, *router, *gate, *up, *down, *gate_bias, *up_bias,
        *down_bias, *shared_router, *shared_gate, *shared_up, *shared_down;
  };
  struct Activations;

  const TinyTensor* Matrix(int64_t rows, int64_t columns, int64_t experts);
  const TinyTensor* Vector(int64_t width, float centre);
  Layer MakeLayer();
  void AddAttention(Backend& backend, int32_t index, const Activations& a, Program* program) const;
  void AddFeedForward(Backend& backend, const Layer& layer, const Activations& a,
                      Program* program) const;
  void AddExperts(Backend& backend, const Layer& layer, const Activations& a,
                  Program* program) const;
  void AddSharedExpert(Backend& backend, const Layer& layer, const Activations& a,
                       Program* program) const;
  Row Attend(const Layer& layer, int32_t window, const std::vector<Row>& keys,
             const std::vector<Row>& values, const Row& query) const;
  Row FeedForward(const Layer& layer, const Row& in) const;
  double Gated(double gate, double up) const;
  Row SharedExpert(const Layer& layer, const Row& in) const;
  void Rope(Row* row, int32_t heads, size_t position) const;
  std::vector<float> Frequencies() const;

  static Row Times(const TinyTensor& matrix, const Row& in, int64_t first_row, int64_t rows);
  static void Norm(const TinyTensor& weight, Row* row);

  TinyShape shape_;
  std::mt19937 random_;
  std::deque<TinyTensor> tensors_;
  std::vector<Layer> layers_;
  const TinyTensor* embedding_ = nullptr;
  const TinyTensor* head_ = nullptr;
  const TinyTensor* final_norm_ = nullptr;
};

inline constexpr float kTinyEpsilon = 1e-5F;

// --- Weights ---

inline const TinyTensor* TinyModel::Matrix(int64_t rows, int64_t columns, int64_t experts) {
  TinyTensor& tensor = tensors_.emplace_back();
  tensor.view.type = shape_.type;
  tensor.view.rank = experts > 1 ? 3 : 2;
  tensor.view.shape = {columns, rows, experts, 1};
  const int64_t count = rows * columns * experts;
  tensor.values.resize(static_cast<size_t>(count));
  tensor.bytes.resize(static_cast<size_t>(RowBytes(shape_.type, count)));
  std::normal_distribution<float> weight(0, 1.5F / std::sqrt(static_cast<float>(columns)));
  if (shape_.type == DType::kF32) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = weight(random_);
      std::memcpy(&tensor.bytes[static_cast<size_t>(4 * i)], &value, 4);
    }
  } else if (shape_.type == DType::kF16) {
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t value = FloatToHalf(weight(random_));
      std::memcpy(&tensor.bytes[static_cast<size_t>(2 * i)], &value, 2);
    }
  } else {  // blocks of a scale and random quants
    const int levels = shape_.type == DType::kQ8_0 ? 127 : 8;
    for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random_());
    const int64_t block_bytes = Info(shape_.type).block_bytes;
    for (size_t at = 0; at < tensor.bytes.size(); at += static_cast<size_t>(block_bytes)) {
      const float scale = 2.5F / std::sqrt(static_cast<float>(columns)) / levels;
      const uint16_t d = FloatToHalf(scale * (0.5F + static_cast<float>(random_() % 100) / 100));
      std::memcpy(&tensor.bytes[at], &d, 2);
    }
  }
  tensor.view.data = tensor.bytes.data();
  tensor.view.size_bytes = static_cast<int64_t>(tensor.bytes.size());
  DequantiseRow(shape_.type, tensor.view.data, count, tensor.values.data());
  return &tensor;
}

inline const TinyTensor* TinyModel::Vector(int64_t width, float centre) {
  TinyTensor& tensor = tensors_.emplace_back();
  std::normal_distribution<float> weight(centre, 0.2F);
  for (int64_t i = 0; i < width; ++i) tensor.values.push_back(weight(random_));
  tensor.bytes.resize(tensor.values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), tensor.values.data(), tensor.bytes.size());
  tensor.view = {DType::kF32,
                 1,
                 {width, 1, 1, 1},
                 tensor.bytes.data(),
                 static_cast<int64_t>(tensor.bytes.size())};
  return &tensor;
}

inline TinyModel::Layer TinyModel::MakeLayer() {
  const TinyShape& s = shape_;
  const int64_t experts = std::max(1, s.experts);
  Layer layer{};
  layer.attention_norm = Vector(s.width, 1);
  layer.query = Matrix(int64_t{s.heads} * s.key_width, s.width, 1);
  layer.key = Matrix(int64_t{s.kv_heads} * s.key_width, s.width, 1);
  layer.value = Matrix(int64_t{s.kv_heads} * s.value_width, s.width, 1);
  layer.query_bias = Vector(int64_t{s.heads} * s.key_width, 0);
  layer.query_norm = Vector(s.key_width, 1);
  layer.key_norm = Vector(s.key_width, 1);
  layer.sinks = Vector(s.heads, 1);
  layer.output = Matrix(s.width, int64_t{s.heads} * s.value_width, 1);
  layer.feed_forward_norm = Vector(s.width, 1);
  layer.router = Matrix(experts, s.width, 1);
  layer.gate = Matrix(s.feed_forward, s.width, experts);
  layer.up = Matrix(s.feed_forward, s.width, experts);
  layer.down = Matrix(s.width, s.feed_forward, experts);
  if (s.expert_biases) {
    layer.gate_bias = Vector(s.feed_forward * experts, 0);
    layer.up_bias = Vector(s.feed_forward * experts, 0);
    layer.down_bias = Vector(s.width * experts, 0);
  }
  if (s.shared_expert) {
    layer.shared_router = Matrix(1, s.width, 1);
    layer.shared_gate = Matrix(s.feed_forward, s.width, 1);
    layer.shared_up = Matrix(s.feed_forward, s.width, 1);
    layer.shared_down = Matrix(s.width, s.feed_forward, 1);
  }
  return layer;
}

// --- The program ---

struct TinyModel::Activations {
  ActivationId stream, normed, queries, keys, values, attended, projected, gate, up, routes, part,
      shared_route, shared_gate, shared_up, shared_out;
};

inline WeightId MustHave(Result<WeightId> weight) {
  REM_CHECK(weight.ok(), weight.status().message());
  return *weight;
}

inline std::vector<float> TinyModel::Frequencies() const {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < shape_.key_width / 2; ++i) {
    frequencies.push_back(
        std::pow(1000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(shape_.key_width)));
  }
  return frequencies;
}

inline void TinyModel::AddAttention(Backend& backend, int32_t index, const Activations& a,
                                    Program* program) const {
  const TinyShape& s = shape_;
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const auto matrix = [&](const TinyTensor* t) {
    return MustHave(backend.AddMatrix(t->view, "m"));
  };
  const auto vector = [&](const TinyTensor* t) {
    return MustHave(backend.AddVector(t->view, "v"));
  };
  auto& ops = program->operations;
  ops.push_back(NormOp{a.stream, a.normed, vector(layer.attention_norm), kTinyEpsilon, s.width});
  MatMulOp qkv{a.normed, {}, 3};
  qkv.products[0] = {matrix(layer.query), a.queries,
                     s.biases ? vector(layer.query_bias) : kNoWeight};
  qkv.products[1] = {matrix(layer.key), a.keys, kNoWeight, s.fine};
  qkv.products[2] = {matrix(layer.value), a.values, kNoWeight, s.fine};
  ops.push_back(qkv);
  if (s.head_norms) {
    ops.push_back(
        NormOp{a.queries, a.queries, vector(layer.query_norm), kTinyEpsilon, s.key_width});
    ops.push_back(NormOp{a.keys, a.keys, vector(layer.key_norm), kTinyEpsilon, s.key_width});
  }
  RopeIntoKvOp rope{a.queries, a.keys, a.values, index, s.heads, {}};
  rope.rope.pairing = s.pairing;
  rope.rope.frequencies = Frequencies();
  ops.push_back(rope);
  AttentionOp attention{a.queries, a.attended, index, s.heads};
  attention.scale = 1 / std::sqrt(static_cast<float>(s.key_width));
  attention.soft_cap = s.soft_cap;
  attention.window = index == 1 ? s.window : 0;
  if (s.sinks) attention.sink_logits = vector(layer.sinks);
  ops.push_back(attention);
  MatMulOp output{a.attended, {}, 1};
  output.products[0] = {matrix(layer.output), a.projected, kNoWeight};
  ops.push_back(output);
  ops.push_back(AddOp{a.projected, a.stream});
}

inline void TinyModel::AddFeedForward(Backend& backend, const Layer& layer, const Activations& a,
                                      Program* program) const {
  const TinyShape& s = shape_;
  auto& ops = program->operations;
  ops.push_back(NormOp{a.stream, a.normed,
                       MustHave(backend.AddVector(layer.feed_forward_norm->view, "norm")),
                       kTinyEpsilon, s.width});
  if (s.experts == 0) {
    const auto matrix = [&](const TinyTensor* t) {
      return MustHave(backend.AddMatrix(t->view, "m"));
    };
    MatMulOp in{a.normed, {}, 2};
    in.products[0] = {matrix(layer.gate), a.gate, kNoWeight};
    in.products[1] = {matrix(layer.up), a.up, kNoWeight};
    ops.push_back(in);
    ops.push_back(GatedActivationOp{a.gate, a.up, a.gate, s.gate});
    MatMulOp out{a.gate, {}, 1};
    out.products[0] = {matrix(layer.down), a.projected, kNoWeight, s.fine};
    ops.push_back(out);
  } else {
    AddExperts(backend, layer, a, program);
    if (s.shared_expert) AddSharedExpert(backend, layer, a, program);
  }
  ops.push_back(AddOp{a.projected, a.stream});
}

inline void TinyModel::AddExperts(Backend& backend, const Layer& layer, const Activations& a,
                                  Program* program) const {
  const TinyShape& s = shape_;
  auto& ops = program->operations;
  const auto experts = [&](const TinyTensor* t) {
    return MustHave(backend.AddExpertMatrices(t->view, "e"));
  };
  const auto bias = [&](const TinyTensor* t) {
    return t == nullptr ? kNoWeight : MustHave(backend.AddVector(t->view, "b"));
  };
  MatMulOp router{a.normed, {}, 1};
  router.products[0] = {MustHave(backend.AddMatrix(layer.router->view, "router")), a.routes,
                        kNoWeight};
  ops.push_back(router);
  ops.push_back(RouteOp{a.routes, s.experts, s.experts_used, true});
  GroupedMatMulOp in{a.normed, {}, 2};
  in.products[0] = {experts(layer.gate), a.gate, bias(layer.gate_bias)};
  in.products[1] = {experts(layer.up), a.up, bias(layer.up_bias)};
  ops.push_back(in);
  ops.push_back(GatedActivationOp{a.gate, a.up, a.gate, s.gate});
  GroupedMatMulOp out{a.gate, {}, 1};
  out.products[0] = {experts(layer.down), a.part, bias(layer.down_bias)};
  ops.push_back(out);
  ops.push_back(ExpertCombineOp{a.part, a.projected});
}

inline void TinyModel::AddSharedExpert(Backend& backend, const Layer& layer, const Activations& a,
                                       Program* program) const {
  auto& ops = program->operations;
  const auto product = [&](const TinyTensor* t, ActivationId out) {
    return MatMulOp::Product{MustHave(backend.AddMatrix(t->view, "s")), out, kNoWeight};
  };
  ops.push_back(
      MatMulOp{a.normed,
               {product(layer.shared_gate, a.shared_gate), product(layer.shared_up, a.shared_up)},
               2});
  ops.push_back(GatedActivationOp{a.shared_gate, a.shared_up, a.shared_gate, shape_.gate});
  ops.push_back(MatMulOp{a.shared_gate, {product(layer.shared_down, a.shared_out)}, 1});
  ops.push_back(MatMulOp{a.normed, {product(layer.shared_router, a.shared_route)}, 1});
  ops.push_back(SigmoidGateOp{a.shared_route, a.shared_out});
  ops.push_back(AddOp{a.shared_out, a.projected});
}

inline Program TinyModel::Load(Backend& backend) const {
  const TinyShape& s = shape_;
  Program program;
  program.vocabulary_size = s.vocabulary;
  program.experts_used_max = s.experts > 0 ? s.experts_used : 0;
  const RowSpace inner = s.experts > 0 ? RowSpace::kExperts : RowSpace::kTokens;
  Activations a{};
  a.stream = program.AddActivation("stream", s.width);
  a.normed = program.AddActivation("normed", s.width);
  a.queries = program.AddActivation("queries", s.heads * s.key_width);
  a.keys = program.AddActivation("keys", s.kv_heads * s.key_width);
  a.values = program.AddActivation("values", s.kv_heads * s.value_width);
  a.attended = program.AddActivation("attended", s.heads * s.value_width);
  a.projected = program.AddActivation("projected", s.width);
  a.gate = program.AddActivation("gate", s.feed_forward, inner);
  a.up = program.AddActivation("up", s.feed_forward, inner);
  a.routes = program.AddActivation("routes", std::max(1, s.experts));
  a.part = program.AddActivation("part", s.width, inner);
  if (s.shared_expert) {
    a.shared_route = program.AddActivation("shared route", 1);
    a.shared_gate = program.AddActivation("shared gate", s.feed_forward);
    a.shared_up = program.AddActivation("shared up", s.feed_forward);
    a.shared_out = program.AddActivation("shared out", s.width);
  }
  const ActivationId last = program.AddActivation("last", s.width, RowSpace::kLogits);
  program.operations.push_back(
      EmbedOp{MustHave(backend.AddEmbedding(embedding_->view, "embedding")), a.stream, 0.5F});
  for (int32_t i = 0; i < s.layers; ++i) {
    AddAttention(backend, i, a, &program);
    AddFeedForward(backend, layers_[static_cast<size_t>(i)], a, &program);
  }
  program.operations.push_back(GatherLogitRowsOp{a.stream, last});
  program.operations.push_back(NormOp{
      last, last, MustHave(backend.AddVector(final_norm_->view, "norm")), kTinyEpsilon, s.width});
  program.operations.push_back(
      LogitsOp{last, MustHave(backend.AddMatrix(head_->view, "head")), 2.0F, s.soft_cap, s.fine});
  return program;
}

// --- The reference ---

inline TinyModel::Row TinyModel::Times(const TinyTensor& matrix, const Row& in, int64_t first_row,
                                       int64_t rows) {
  Row out(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t k = 0; k < in.size(); ++k) {
      out[static_cast<size_t>(r)] += matrix.at(first_row + r, static_cast<int64_t>(k)) * in[k];
    }
  }
  return out;
}

inline void TinyModel::Norm(const TinyTensor& weight, Row* row) {
  const size_t group = weight.values.size();
  for (size_t begin = 0; begin < row->size(); begin += group) {
    double squares = 0;
    for (size_t i = 0; i < group; ++i) squares += (*row)[begin + i] * (*row)[begin + i];
    const double factor = 1 / std::sqrt(squares / static_cast<double>(group) + kTinyEpsilon);
    for (size_t i = 0; i < group; ++i) (*row)[begin + i] *= factor * weight.values[i];
  }
}

inline void TinyModel::Rope(Row* row, int32_t heads, size_t position) const {
  const std::vector<float> frequencies = Frequencies();
  const size_t pairs = frequencies.size();
  for (int32_t head = 0; head < heads; ++head) {
    double* x = row->data() + head * shape_.key_width;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      const bool interleaved = shape_.pairing == RopePairing::kInterleaved;
      double& first = x[interleaved ? 2 * i : i];
      double& second = x[interleaved ? 2 * i + 1 : i + pairs];
      const double old = first;
      first = old * std::cos(angle) - second * std::sin(angle);
      second = second * std::cos(angle) + old * std::sin(angle);
    }
  }
}

inline TinyModel::Row TinyModel::Attend(const Layer& layer, int32_t window,
                                        const std::vector<Row>& keys,
                                        const std::vector<Row>& values, const Row& query) const {
  const TinyShape& s = shape_;
  Row out(static_cast<size_t>(s.heads * s.value_width));
  const size_t begin =
      window > 0 && keys.size() > static_cast<size_t>(window) ? keys.size() - window : 0;
  for (int32_t head = 0; head < s.heads; ++head) {
    const int32_t kv_head = head / (s.heads / s.kv_heads);
    double total = s.sinks ? std::exp(static_cast<double>(layer.sinks->values[head])) : 0;
    Row weights;
    for (size_t k = begin; k < keys.size(); ++k) {
      double score = 0;
      for (int32_t d = 0; d < s.key_width; ++d) {
        score += query[head * s.key_width + d] * keys[k][kv_head * s.key_width + d];
      }
      score /= std::sqrt(static_cast<double>(s.key_width));
      if (s.soft_cap > 0) score = s.soft_cap * std::tanh(score / s.soft_cap);
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    for (size_t k = begin; k < keys.size(); ++k) {
      for (int32_t d = 0; d < s.value_width; ++d) {
        out[head * s.value_width + d] +=
            weights[k - begin] / total * values[k][kv_head * s.value_width + d];
      }
    }
  }
  return out;
}

inline double TinyModel::Gated(double gate, double up) const {
  switch (shape_.gate) {
    case GateKind::kSilu: return gate / (1 + std::exp(-gate)) * up;
    case GateKind::kGeluTanh: {
      const double u = std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
      return gate / 2 * (1 + std::tanh(u)) * up;
    }
    case GateKind::kClampedSwiglu: {
      const double x = std::min(gate, 7.0);
      return x / (1 + std::exp(-1.702 * x)) * (std::clamp(up, -7.0, 7.0) + 1);
    }
  }
  return 0;
}

inline TinyModel::Row TinyModel::SharedExpert(const Layer& layer, const Row& in) const {
  const TinyShape& s = shape_;
  Row inner = Times(*layer.shared_gate, in, 0, s.feed_forward);
  const Row up = Times(*layer.shared_up, in, 0, s.feed_forward);
  for (size_t i = 0; i < inner.size(); ++i) inner[i] = Gated(inner[i], up[i]);
  Row out = Times(*layer.shared_down, inner, 0, s.width);
  const double share = 1 / (1 + std::exp(-Times(*layer.shared_router, in, 0, 1)[0]));
  for (double& x : out) x *= share;
  return out;
}

inline TinyModel::Row TinyModel::FeedForward(const Layer& layer, const Row& in) const {
  const TinyShape& s = shape_;
  std::vector<std::pair<double, int64_t>> chosen = {{1.0, 0}};
  if (s.experts > 0) {
    Row routes = Times(*layer.router, in, 0, s.experts);
    chosen.clear();
    for (int64_t e = 0; e < s.experts; ++e) {
      chosen.emplace_back(std::exp(routes[static_cast<size_t>(e)]), e);
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    chosen.resize(static_cast<size_t>(s.experts_used));
    double total = 0;
    for (const auto& [weight, e] : chosen) total += weight;
    for (auto& [weight, e] : chosen) weight /= total;
  }
  const auto times = [&](const TinyTensor* matrix, const TinyTensor* bias, const Row& row,
                         int64_t expert, int64_t rows) {
    Row product = Times(*matrix, row, expert * rows, rows);
    for (size_t i = 0; bias != nullptr && i < product.size(); ++i) {
      product[i] += bias->values[static_cast<size_t>(expert * rows) + i];
    }
    return product;
  };
  Row out = s.shared_expert ? SharedExpert(layer, in) : Row(in.size());
  for (const auto& [weight, e] : chosen) {
    Row gate = times(layer.gate, layer.gate_bias, in, e, s.feed_forward);
    const Row up = times(layer.up, layer.up_bias, in, e, s.feed_forward);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = Gated(gate[i], up[i]);
    const Row part = times(layer.down, layer.down_bias, gate, e, s.width);
    for (size_t i = 0; i < out.size(); ++i) out[i] += weight * part[i];
  }
  return out;
}

inline std::vector<std::vector<double>> TinyModel::Logits(
    const std::vector<int32_t>& tokens) const {
  const TinyShape& s = shape_;
  std::vector<Row> stream;
  for (int32_t token : tokens) {
    Row row;
    for (int64_t i = 0; i < s.width; ++i) row.push_back(0.5 * embedding_->at(token, i));
    stream.push_back(row);
  }
  for (int32_t index = 0; index < s.layers; ++index) {
    const Layer& layer = layers_[static_cast<size_t>(index)];
    std::vector<Row> keys, values;
    for (size_t position = 0; position < stream.size(); ++position) {
      Row normed = stream[position];
      Norm(*layer.attention_norm, &normed);
      Row query = Times(*layer.query, normed, 0, int64_t{s.heads} * s.key_width);
      for (size_t i = 0; s.biases && i < query.size(); ++i) query[i] += layer.query_bias->values[i];
      Row key = Times(*layer.key, normed, 0, int64_t{s.kv_heads} * s.key_width);
      if (s.head_norms) {
        Norm(*layer.query_norm, &query);
        Norm(*layer.key_norm, &key);
      }
      Rope(&query, s.heads, position);
      Rope(&key, s.kv_heads, position);
      keys.push_back(key);
      values.push_back(Times(*layer.value, normed, 0, int64_t{s.kv_heads} * s.value_width));
      const Row attended = Attend(layer, index == 1 ? s.window : 0, keys, values, query);
      const Row projected = Times(*layer.output, attended, 0, s.width);
      for (size_t i = 0; i < projected.size(); ++i) stream[position][i] += projected[i];
    }
    for (Row& row : stream) {
      Row normed = row;
      Norm(*layer.feed_forward_norm, &normed);
      const Row out = FeedForward(layer, normed);
      for (size_t i = 0; i < out.size(); ++i) row[i] += out[i];
    }
  }
  std::vector<Row> logits;
  for (Row& row : stream) {
    Norm(*final_norm_, &row);
    Row out = Times(*head_, row, 0, s.vocabulary);
    for (double& x : out) x = s.soft_cap > 0 ? s.soft_cap * std::tanh(2 * x / s.soft_cap) : 2 * x;
    logits.push_back(out);
  }
  return logits;
}

}  // namespace remontoir::testing
