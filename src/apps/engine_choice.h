// The configuration file with the flags over it: what every command that loads a model shares.
#pragma once

#include "config/config.h"

namespace remontoir {

enum class ComputeChoice { kAuto, kF32 };

struct EngineChoice {
  Config config;
  ComputeChoice compute = ComputeChoice::kAuto;
};

}  // namespace remontoir
