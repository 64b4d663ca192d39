// The configuration file with the flags over it: what every command that loads a model shares.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace remontoir {

enum class ComputeChoice { kAuto, kF32 };

struct EngineChoice {
  Config config;
  std::vector<std::string> notes;  // accepted without effect, for the log
  ComputeChoice compute = ComputeChoice::kAuto;
};

}  // namespace remontoir
