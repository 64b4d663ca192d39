// `remontoir plan`: what a model will take, from its header alone.
#pragma once

#include <cstdio>

#include "apps/tool_options.h"
#include "base/status.h"

namespace remontoir {

// Prints the memory of weights, activations, keys and values beside what is free, whether it fits
// or not; the error for what doesn't fit says what is needed, what is free and which key to lower.
// The file's tensor data may be missing.
Status Plan(const PlanOptions& options, std::FILE* out);

}  // namespace remontoir
