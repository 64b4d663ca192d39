// `remontoir inspect`: says what a model file holds and whether this build can run it.
#pragma once

#include <cstdio>

#include "apps/command_line.h"
#include "base/status.h"

namespace remontoir {

// Prints to `out` what could be read, up to the first error, which names the field, key or tensor.
// Reads no weights.
Status Inspect(const InspectOptions& options, std::FILE* out);

}  // namespace remontoir
