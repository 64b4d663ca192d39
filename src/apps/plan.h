// `remontoir plan`: what a model will take, from its header alone.
#pragma once

#include <cstdio>

#include "apps/tool_options.h"
#include "base/status.h"

namespace remontoir {

// Prints the memory of weights, keys and values, and activations beside what is free. An error says
// what is needed, what is free, and which key to lower.
Status Plan(const PlanOptions& options, std::FILE* out);

}  // namespace remontoir
