// Logs for the predictor's tests, drawn by seed.
#pragma once

#include <cmath>

#include "base/random.h"
#include "predictor/arrival_log.h"

namespace remontoir {

// Bursts of four requests, 30 ms apart, that begin at random about every `gap_s` seconds.
inline ArrivalLog MadeBursts(double seconds, double gap_s, uint64_t seed) {
  const CounterRandom random(seed, 0);
  ArrivalLog log;
  double at_s = 0;
  for (uint64_t i = 0; at_s < seconds; ++i) {
    for (int j = 0; j < 4; ++j) {
      LoggedArrival arrival;
      arrival.t_us = static_cast<int64_t>((at_s + 0.03 * j) * 1e6);
      arrival.prompt_tokens = static_cast<int32_t>(random.Bits(1000 + i) % 500);
      log.arrivals.push_back(arrival);
    }
    at_s += 0.12 - gap_s * std::log1p(-random.Uniform(i));
  }
  return log;
}

}  // namespace remontoir
