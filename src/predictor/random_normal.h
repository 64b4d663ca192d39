// Normal random numbers by position, from base/random's counter.
#pragma once

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace remontoir {

// Draw i is a pure function of (seed, stream, i): mean 0, deviation 1 (Box and Muller 1958).
class RandomNormal {
 public:
  RandomNormal(uint64_t seed, uint64_t stream) : uniform_(seed, stream) {}

  double Draw(uint64_t i) const {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform_.Uniform(2 * i)));
    return radius * std::cos(2.0 * std::numbers::pi * uniform_.Uniform(2 * i + 1));
  }

 private:
  CounterRandom uniform_;
};

}  // namespace remontoir
