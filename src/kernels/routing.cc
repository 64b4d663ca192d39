// Softmax over experts and the choice of the best, in the order that ties are broken.
#include "kernels/routing.h"

#include <algorithm>

#include "kernels/math_scalar.h"

namespace remontoir {

void RouteRow(const float* logits, int experts, int used, bool renormalise, int32_t* chosen,
              float* weights) {
  float max = logits[0];
  for (int e = 1; e < experts; ++e) max = std::max(max, logits[e]);
  float total = 0;
  for (int e = 0; e < experts; ++e) total += scalar::Exp(logits[e] - max);

  // The chosen so far stand sorted; each expert is pushed in where it belongs or dropped. Comparing
  // logits instead of their softmax keeps the order where weights underflow to the same zero.
  int count = 0;
  for (int32_t e = 0; e < experts; ++e) {
    int place = count;
    while (place > 0 && logits[e] > logits[chosen[place - 1]]) --place;
    if (place == used) continue;
    if (count < used) ++count;
    std::copy_backward(chosen + place, chosen + count - 1, chosen + count);
    chosen[place] = e;
  }

  float chosen_total = 0;
  for (int i = 0; i < used; ++i) {
    weights[i] = scalar::Exp(logits[chosen[i]] - max) / total;
    chosen_total += weights[i];
  }
  if (!renormalise) return;
  for (int i = 0; i < used; ++i) weights[i] /= chosen_total;
}

float Sigmoid(float x) { return 1.0F / (1.0F + scalar::Exp(-x)); }

}  // namespace remontoir
