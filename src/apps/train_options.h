// What was typed for `remontoir train-predictor`.
#pragma once

#include <cstdint>
#include <string>

namespace remontoir {

struct TrainOptions {
  std::string log;
  std::string out;  // empty: nothing is written
  int32_t tick_ms = 20;
  int32_t hidden = 24;
  int32_t epochs = 8;
  uint64_t seed = 1;
  bool selftest = false;  // check the gradient at the end
};

}  // namespace remontoir
