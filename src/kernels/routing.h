// Which experts a token goes to.
#pragma once

#include <cstdint>

namespace remontoir {

// Softmax over the router's logits [experts], then the `used` best by falling weight (ties: lower
// number). Their weights are divided by their sum when `renormalise` is set. Writes [used] each.
void RouteRow(const float* logits, int experts, int used, bool renormalise, int32_t* chosen,
              float* weights);

}  // namespace remontoir
