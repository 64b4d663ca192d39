// Which experts a token goes to, and how they count.
#pragma once

#include <cstdint>

namespace remontoir {

inline constexpr int kExpertGroupsMax = 64;

enum class RouterScore : uint8_t {
  kSoftmax,  // over all experts
  kSigmoid,  // of each expert by itself
};

// How a router's logits become chosen experts and their weights.
struct RoutingRule {
  int experts = 0;
  int used = 0;
  bool renormalise = true;  // the chosen experts' weights sum to 1
  RouterScore score = RouterScore::kSoftmax;
  float soft_cap = 0;  // 0 = off; else the logits become cap * tanh(logit / cap) first
  float scale = 1;     // multiplies the chosen experts' weights at the end
  // Experts stand in `groups` of equal size, at most kExpertGroupsMax; only those of the
  // `groups_used` best groups may be chosen. A group counts by its best expert with kSoftmax, by
  // the sum of its best two with kSigmoid (DeepSeek-V2, arXiv 2405.04434, section 2.2.2;
  // DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
  int groups = 1;
  int groups_used = 1;
  // [experts] joins the sigmoids where experts are compared, or null; not with kSoftmax.
  const float* bias = nullptr;
};

// The `used` best experts by falling score (ties, of experts as of groups: the lower number) and
// their weights, [used] each. `logits` [experts] are overwritten.
void RouteRow(const RoutingRule& rule, float* logits, int32_t* chosen, float* weights);

// 1 / (1 + e^-x): how much the expert counts that every token goes to.
float Sigmoid(float x);

}  // namespace remontoir
