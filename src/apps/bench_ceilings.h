// What this machine can do at most: measured beside every bench, so that its rates mean something.
#pragma once

#include <cstdint>
#include <memory>
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

// Float32 multiply-adds of one thread, to be timed in turns with what they are the ceiling of.
struct FmaLoop {
  void (*run)(int64_t loops) = nullptr;
  double ops_per_loop = 0;  // a multiply-add is two
};
// Of the instruction set that runs kernels of this name; `run` is null where there is none.
FmaLoop FmaLoopOf(std::string_view instruction_set);

// The instruction sets whose peaks can be measured here, fastest last.
std::vector<std::string_view> CeilingInstructionSets();

// Each figure the higher one of two measurements of the same thing.
Ceilings BestOf(const Ceilings& a, const Ceilings& b);

// What holds for something that ran between two calls of CeilingMeter::Now.
Ceilings Between(const Ceilings& before, const Ceilings& after);

// Measures again and again: a busy moment makes ceilings look low and ratios good.
class CeilingMeter {
 public:
  // With `threads` threads and the instruction set named, or the fastest where that is empty or has
  // no microkernel of its own. Takes 512 MiB for as long as it lives, and measures once.
  static Result<CeilingMeter> Open(int threads, std::string_view instruction_set);
  CeilingMeter(CeilingMeter&& other) noexcept;
  ~CeilingMeter();

  // Each figure the best of some tries, which take about half a second; returns best().
  const Ceilings& Measure();

  // Reading as it is now (the mean of some hundredths of a second), arithmetic at its best so far:
  // a neighbour on the same host takes memory's bandwidth in one moment and not in the next, so
  // what waits for memory is judged by what memory gave just before and just after.
  Ceilings Now();

  // The best of all measurements so far.
  const Ceilings& best() const { return best_; }

 private:
  struct Parts;
  explicit CeilingMeter(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
  Ceilings best_;
};

}  // namespace remontoir
