// Streams of requests: recipes that make one from a trace or from dice, by seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulation/arrival.h"
#include "simulation/machine.h"

namespace remontoir {

// Two states of an arrival process that take turns, each for an exponentially distributed time.
struct Bursts {
  double seconds = 7200;
  double calm_per_s = 0.8;
  double calm_s_mean = 1.5;
  double burst_per_s = 20;
  double burst_s_mean = 0.12;
  double prompt_mean = 100;  // lognormal, at least 4
  double prompt_sigma = 1;   // of the logarithm
  double output_mean = 30;   // exponential, at least 2
};

struct StreamRecipe {
  std::string name;
  std::string trace;  // its file; empty: made from `bursts`
  double keep = 1;    // share of arrivals that is kept, each by its own draw: real times stay
  double prompt_divisor = 1;
  double output_divisor = 1;
  Bursts bursts;
  Machine machine;
};

// The streams of the specification: convC30 convC60 codeC30 convG60 codeG30 mmppC60. C: `cpu` and
// shortened texts; G: `gpu` and whole ones; the number is the nominal load in percent.
std::span<const std::string_view> StreamNames();
Result<StreamRecipe> StreamNamed(std::string_view name);

// The stream's requests for a seed, in order of time. `trace`: what the recipe names; unused where
// it names none.
std::vector<Arrival> MakeStream(const StreamRecipe& recipe, std::span<const Arrival> trace,
                                uint64_t seed);

// The arrivals from this share of the stream's time on (0.75: its last quarter), their times as
// they were.
std::span<const Arrival> Tail(std::span<const Arrival> arrivals, double from);

}  // namespace remontoir
