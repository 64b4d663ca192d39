// Counter-based random numbers: value i of a stream is a pure function of (seed, stream, i).
#pragma once

#include <cstdint>

namespace remontoir {

// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
// no state to save or share, so a draw doesn't depend on who else drew.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  // 64 random bits for this counter.
  uint64_t Bits(uint64_t counter) const;

  // Uniform in [0, 1) with 53 bits.
  double Uniform(uint64_t counter) const {
    return static_cast<double>(Bits(counter) >> 11) * 0x1.0p-53;
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
};

// Bits from the system, for seeds and identifiers that nobody chose.
uint64_t SystemRandomBits();

}  // namespace remontoir
