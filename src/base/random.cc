// Philox 4x32-10 and the system's entropy.
#include "base/random.h"

#include <array>
#include <random>

namespace remontoir {
namespace {

using Block = std::array<uint32_t, 4>;

Block Round(const Block& x, uint32_t key0, uint32_t key1) {
  const uint64_t product0 = uint64_t{0xD2511F53} * x[0];
  const uint64_t product1 = uint64_t{0xCD9E8D57} * x[2];
  return {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
}

}  // namespace

uint64_t CounterRandom::Bits(uint64_t counter) const {
  Block x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
             static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)};
  auto key0 = static_cast<uint32_t>(seed_);
  auto key1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    x = Round(x, key0, key1);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return uint64_t{x[1]} << 32 | x[0];
}

uint64_t SystemRandomBits() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace remontoir
