// The list of operations of a round: made once when a model is loaded, run every round.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kernels/routing.h"
#include "tensor/kv_layout.h"

namespace remontoir {

enum class WeightId : int32_t {};
enum class ActivationId : int32_t {};
inline constexpr WeightId kNoWeight{-1};
inline constexpr ActivationId kNoActivation{-1};

// What a row of an activation stands for.
enum class RowSpace : uint8_t {
  kTokens,   // one row a token of the round
  kExperts,  // one row a (token, chosen expert), grouped by expert
  kLogits,   // one row a token whose logits were asked for
};

// A float32 matrix [rows of the round][width]; the backend may keep quantised forms beside it.
struct Activation {
  std::string name;
  RowSpace rows = RowSpace::kTokens;
  int32_t width = 0;
};

enum class GateKind : uint8_t {
  kSilu,
  kGeluTanh,
  kClampedSwiglu,  // kernel_table.h has its formula
};

// out[r] = table[token of row r] * scale
struct EmbedOp {
  WeightId table;
  ActivationId out;
  float scale = 1;
};

// RMS norm: out = in / sqrt(mean(in^2) + epsilon) * weight, over runs of `group_width` values
// (a head for q/k norms; the whole row when group_width is the width).
struct NormOp {
  ActivationId in;
  ActivationId out;  // may be `in`
  WeightId weight;   // [group_width]
  float epsilon = 0;
  int32_t group_width = 0;
};

// out_i = in * weight_i^T + bias_i for up to three matrices that share one input.
struct MatMulOp {
  struct Product {
    WeightId weight = kNoWeight;  // [out width][in width]
    ActivationId out = kNoActivation;
    WeightId bias = kNoWeight;  // [out width] or none
    // Activations as the sum of two 8-bit forms (the second one of what the first left over), where
    // one form's error weighs most. Means nothing to float weights.
    bool fine_activations = false;
  };
  ActivationId in;
  std::array<Product, 3> products;
  int32_t product_count = 0;
};

enum class RopePairing : uint8_t {
  kInterleaved,  // rotates (x[2i], x[2i+1])
  kHalves,       // rotates (x[i], x[i + n/2])
};

struct RopeParams {
  RopePairing pairing = RopePairing::kInterleaved;
  std::vector<float> frequencies;  // [rotary width / 2] radians a position; empty: no rotation
  float magnitude = 1;             // multiplies cos and sin (YaRN)
};

// Rotates queries in place and keys on their way into the layer's KV page; copies values there.
struct RopeIntoKvOp {
  ActivationId queries;  // [heads * key_width]
  ActivationId keys;     // [kv_heads * key_width]
  ActivationId values;   // [kv_heads * value_width]
  int32_t layer = 0;
  int32_t heads = 0;
  RopeParams rope;
  int32_t rotary_begin = 0;  // the first value of a head that turns
};

// out[r][h * b ...] = weight[h] * in[r][h * a ...] for runs of a values of `in` and b of `out` a
// head: each head's own matrix times the first `in_width` values of its run gives the first
// `out_width` values of its run. The others of `out` stay as they are.
struct HeadMatMulOp {
  ActivationId in;   // [heads * a], a >= in_width
  ActivationId out;  // [heads * b], b >= out_width
  WeightId weight;   // [heads][out_width][in_width]
  int32_t heads = 0;
  int32_t in_width = 0;
  int32_t out_width = 0;
  bool fine_activations = false;
};

// Copies `width` values of each head: from in_begin of its run in `in` to out_begin of its run in
// `out`, whose other values stay as they are.
struct CopyHeadsOp {
  ActivationId in;   // [heads * a]
  ActivationId out;  // [heads * b]
  int32_t heads = 1;
  int32_t in_begin = 0;
  int32_t out_begin = 0;
  int32_t width = 0;
};

// out = softmax(cap(q k^T * scale) * t over the visible keys) v, where t is 1, but for a query at a
// position p > temperature_length it is log2(p) / log2(temperature_length).
struct AttentionOp {
  ActivationId queries;
  ActivationId out;  // [heads * value_width]
  int32_t layer = 0;
  int32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;                // 0 = off; else cap * tanh(x / cap)
  int32_t window = 0;                // 0 = all earlier keys
  WeightId sink_logits = kNoWeight;  // [heads] learned logits that join the softmax's sum
  int32_t temperature_length = 0;    // 0 = off, else at least 2; positions count from 0
};

// out = activation(gate) * up
struct GatedActivationOp {
  ActivationId gate;
  ActivationId up;
  ActivationId out;  // may be `gate`
  GateKind kind = GateKind::kSilu;
};

// inout += in
struct AddOp {
  ActivationId in;
  ActivationId inout;
};

// Chooses experts for each row from its router logits (kernels/routing.h says how), which it
// overwrites. Groups the chosen (row, expert) pairs by expert for the grouped operations that
// follow, until the next RouteOp.
struct RouteOp {
  ActivationId logits;  // [experts]
  int32_t experts = 0;
  int32_t experts_used = 0;
  bool renormalise = true;
  RouterScore score = RouterScore::kSoftmax;
  float soft_cap = 0;  // 0 = off
  float weight_scale = 1;
  int32_t groups = 1;
  int32_t groups_used = 1;
  WeightId choice_bias = kNoWeight;  // [experts] or none
  int32_t layer = 0;                 // under which the rows of its experts are counted
};

// Products of each expert row with its own expert's matrix, and its own expert's bias. `in` is in
// token rows (gathered on the way) or in expert rows.
struct GroupedMatMulOp {
  ActivationId in;
  // weights [experts][out width][in width], biases [experts * out width] or none
  std::array<MatMulOp::Product, 2> products;
  int32_t product_count = 0;
};

// out[token] = sum of its expert rows times their gate weights, in order of rank.
struct ExpertCombineOp {
  ActivationId in;   // expert rows
  ActivationId out;  // token rows
};

// inout *= 1 / (1 + e^-gate), one gate a row.
struct SigmoidGateOp {
  ActivationId gate;  // rows of one value
  ActivationId inout;
};

// Copies the rows whose logits were asked for into a kLogits activation.
struct GatherLogitRowsOp {
  ActivationId in;
  ActivationId out;
};

// logits = cap(in * weight^T * scale); the round's output.
struct LogitsOp {
  ActivationId in;  // kLogits rows
  WeightId weight;  // [vocabulary][width]
  float scale = 1;
  float soft_cap = 0;
  bool fine_activations = false;
};

using Operation = std::variant<EmbedOp, NormOp, MatMulOp, RopeIntoKvOp, HeadMatMulOp, CopyHeadsOp,
                               AttentionOp, GatedActivationOp, AddOp, RouteOp, GroupedMatMulOp,
                               ExpertCombineOp, SigmoidGateOp, GatherLogitRowsOp, LogitsOp>;

struct Program {
  std::vector<Activation> activations;
  std::vector<Operation> operations;
  int32_t vocabulary_size = 0;
  int32_t experts_used_max = 0;  // 0: dense

  ActivationId AddActivation(std::string name, int32_t width, RowSpace rows = RowSpace::kTokens) {
    activations.push_back({std::move(name), rows, width});
    return ActivationId(static_cast<int32_t>(activations.size()) - 1);
  }
};

}  // namespace remontoir
