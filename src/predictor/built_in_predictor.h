// The network that comes with the program: a safetensors file, in the program's own bytes.
#pragma once

#include <cstddef>
#include <span>

namespace remontoir {

// data/predictor/azure2023_code.safetensors; made by the build.
std::span<const std::byte> BuiltInPredictor();

}  // namespace remontoir
