// Steps that multiply activations with packed matrices, dense or grouped by expert.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "backend/cpu_step.h"
#include "backend/cpu_weights.h"

namespace remontoir {

inline constexpr int kProductsMax = 3;

// out = (in * weight^T + bias) * scale, capped.
struct ProductPlan {
  const PackedMatrices* weight = nullptr;
  const ActivationMatrix* out = nullptr;
  const float* bias = nullptr;  // [out width], of all experts one after the other; or null
  float scale = 1;
  float soft_cap = 0;  // 0 = off
  bool fine_activations = false;
};

// Products of one input, run as one step.
struct ProductGroup {
  const ActivationMatrix* in = nullptr;
  std::array<ProductPlan, kProductsMax> products;
  int32_t count = 0;
  // Not null: the two products of a gated layer. products[0].out = gate(first, second), piece by
  // piece; the second product's values are not kept.
  void (*gate)(const float* gate, const float* up, int64_t width, float* out) = nullptr;
};

// Whether the products can run as one gated step: matrices of one layout, in whole blocks of 32
// columns, with nothing but biases added and the gate done to their results.
bool CanGate(const ProductGroup& group);

std::unique_ptr<Step> MakeMatMulStep(const RoundState& round, const ProductGroup& group);

// Rows of the kExperts space with their own expert's matrix; experts without rows are not touched.
std::unique_ptr<Step> MakeGroupedMatMulStep(const RoundState& round, const ProductGroup& group);

// Each head's own matrix (an expert of `plan.weight`) times the first values of its run.
struct HeadProduct {
  const ActivationMatrix* in = nullptr;
  ProductPlan plan;  // no bias
  int32_t heads = 1;
  int64_t in_run = 0;   // values of a head in `in`: whole blocks of 32 for quantised weights
  int64_t out_run = 0;  // and in plan.out
};

std::unique_ptr<Step> MakeHeadMatMulStep(const RoundState& round, const HeadProduct& product);

}  // namespace remontoir
