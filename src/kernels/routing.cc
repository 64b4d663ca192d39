// Scores of experts and the choice of the best, in the order that ties are broken.
#include "kernels/routing.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/math_scalar.h"

namespace remontoir {
namespace {

// Keeps a sum of sigmoids that all vanish from dividing by zero.
constexpr float kSigmoidSumMin = 1e-20F;

// What experts are compared by. Logits instead of their softmax keep the order where weights
// underflow to the same zero.
float ComparedScore(const RoutingRule& rule, const float* scores, int expert) {
  return rule.bias == nullptr ? scores[expert] : scores[expert] + rule.bias[expert];
}

float GroupScore(const RoutingRule& rule, const float* scores, int group) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const int size = rule.experts / rule.groups;
  float best = kNone;
  float second = kNone;
  for (int e = group * size; e < (group + 1) * size; ++e) {
    const float score = ComparedScore(rule, scores, e);
    if (score > best) {
      second = best;
      best = score;
    } else if (score > second) {
      second = score;
    }
  }
  return rule.score == RouterScore::kSoftmax || size == 1 ? best : best + second;
}

// Which groups' experts may be chosen.
class OpenGroups {
 public:
  OpenGroups(const RoutingRule& rule, const float* scores)
      : size_(rule.experts / rule.groups), all_(rule.groups_used >= rule.groups) {
    if (all_) return;
    std::array<float, kExpertGroupsMax> group_scores = {};
    for (int g = 0; g < rule.groups; ++g) {
      group_scores[static_cast<size_t>(g)] = GroupScore(rule, scores, g);
    }
    // As often as asked the best of those still shut. NaN is never better, the first always opens.
    for (int i = 0; i < rule.groups_used; ++i) {
      int best = -1;
      for (int g = 0; g < rule.groups; ++g) {
        const auto at = static_cast<size_t>(g);
        if (open_[at]) continue;
        if (best < 0 || group_scores[at] > group_scores[static_cast<size_t>(best)]) best = g;
      }
      open_[static_cast<size_t>(best)] = true;
    }
  }

  bool Has(int expert) const { return all_ || open_[static_cast<size_t>(expert / size_)]; }

 private:
  const int size_;
  const bool all_;
  std::array<bool, kExpertGroupsMax> open_ = {};
};

// The chosen so far stand sorted; each expert is pushed in where it belongs or dropped.
void ChooseExperts(const RoutingRule& rule, const float* scores, int32_t* chosen) {
  const OpenGroups groups(rule, scores);
  int count = 0;
  for (int32_t e = 0; e < rule.experts; ++e) {
    if (!groups.Has(e)) continue;
    const float score = ComparedScore(rule, scores, e);
    int place = count;
    while (place > 0 && score > ComparedScore(rule, scores, chosen[place - 1])) --place;
    if (place == rule.used) continue;
    if (count < rule.used) ++count;
    std::copy_backward(chosen + place, chosen + count - 1, chosen + count);
    chosen[place] = e;
  }
}

void WeighBySoftmax(const RoutingRule& rule, const float* logits, const int32_t* chosen,
                    float* weights) {
  float max = logits[0];
  for (int e = 1; e < rule.experts; ++e) max = std::max(max, logits[e]);
  float total = 0;
  for (int e = 0; e < rule.experts; ++e) total += scalar::Exp(logits[e] - max);
  for (int i = 0; i < rule.used; ++i) weights[i] = scalar::Exp(logits[chosen[i]] - max) / total;
}

}  // namespace

void RouteRow(const RoutingRule& rule, float* logits, int32_t* chosen, float* weights) {
  for (int e = 0; e < rule.experts; ++e) {
    if (rule.soft_cap != 0) logits[e] = scalar::Tanh(logits[e] / rule.soft_cap) * rule.soft_cap;
    if (rule.score == RouterScore::kSigmoid) logits[e] = Sigmoid(logits[e]);
  }
  ChooseExperts(rule, logits, chosen);
  if (rule.score == RouterScore::kSoftmax) {
    WeighBySoftmax(rule, logits, chosen, weights);
  } else {
    for (int i = 0; i < rule.used; ++i) weights[i] = logits[chosen[i]];
  }
  if (rule.renormalise) {
    float total = 0;
    for (int i = 0; i < rule.used; ++i) total += weights[i];
    if (rule.score == RouterScore::kSigmoid) total = std::max(total, kSigmoidSumMin);
    for (int i = 0; i < rule.used; ++i) weights[i] /= total;
  }
  if (rule.scale == 1) return;
  for (int i = 0; i < rule.used; ++i) weights[i] *= rule.scale;
}

float Sigmoid(float x) { return 1.0F / (1.0F + scalar::Exp(-x)); }

}  // namespace remontoir
