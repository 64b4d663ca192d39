// Rotary frequencies of a model from its file's scaling rule and the user's.
#pragma once

#include <span>

#include "backend/program.h"
#include "model/hyperparameters.h"

namespace remontoir {

// The user's stretch on top of the file's: `base_scale` multiplies the base (NTK), `freq_scale`
// multiplies every frequency (0.5 = positions half as far apart).
struct RopeAdjustment {
  double freq_scale = 1;
  double base_scale = 1;
};

// frequency_i = base^(-2i / rotary_width), then linear or YaRN scaling (Peng et al., "YaRN:
// Efficient Context Window Extension of Large Language Models", 2023, sections 3.2 and 3.4), then
// divided by factors[i] where the file gives them.
RopeParams MakeRope(RopePairing pairing, int32_t rotary_width, const RopeScaling& scaling,
                    std::span<const float> factors, const RopeAdjustment& adjustment);

}  // namespace remontoir
