// What this machine can do at most: measured beside every bench, so that its rates mean something.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

struct Ceilings {
  std::string instruction_set;  // that the arithmetic was measured with
  int threads = 0;
  double read_bytes_per_second = 0;    // from memory, of a region larger than the caches
  double cached_bytes_per_second = 0;  // of regions that the second-level caches hold
  double int8_ops_per_second = 0;  // multiply-adds of 4-bit weights and 8-bit activations, as two
  double f32_ops_per_second = 0;   // fused multiply-adds, as two
};

// The instruction sets whose peaks can be measured here, fastest last.
std::vector<std::string_view> CeilingInstructionSets();

// With `threads` threads, each figure the best of some tries; takes about a second. With the
// instruction set named, or the fastest where it is empty or has no microkernel of its own.
// A busy moment makes ceilings look low; BestOf later ones mends that.
Result<Ceilings> MeasureCeilings(int threads, std::string_view instruction_set);

// Each figure the higher one of two measurements of the same thing.
Ceilings BestOf(const Ceilings& a, const Ceilings& b);

}  // namespace remontoir
