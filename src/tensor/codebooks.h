// Codebooks of GGML's IQ types: the vectors of levels that their indices stand for.
#pragma once

#include <array>
#include <cstdint>

namespace remontoir {

// Eight levels of two bits a vector, the first one in the lowest bits.
extern const std::array<uint16_t, 2048> kIQ1Codebook;
extern const std::array<uint16_t, 256> kIQ2_XXSCodebook;
extern const std::array<uint16_t, 512> kIQ2_XSCodebook;
extern const std::array<uint16_t, 1024> kIQ2_SCodebook;
// Four levels of four bits a vector.
extern const std::array<uint16_t, 256> kIQ3_XXSCodebook;
extern const std::array<uint16_t, 512> kIQ3_SCodebook;

}  // namespace remontoir
