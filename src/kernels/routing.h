// Which experts a token goes to, and how they count.
#pragma once

#include <cstdint>

namespace remontoir {

// Softmax over the router's logits [experts], then the `used` best by falling weight (ties: lower
// number). Their weights are divided by their sum when `renormalise` is set. Writes [used] each.
void RouteRow(const float* logits, int experts, int used, bool renormalise, int32_t* chosen,
              float* weights);

// 1 / (1 + e^-x): how much the expert counts that every token goes to.
float Sigmoid(float x);

}  // namespace remontoir
