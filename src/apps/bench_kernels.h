// `remontoir bench kernels`: each kernel by itself on one thread, beside what one core allows.
#pragma once

#include <cstdio>

#include "apps/bench_options.h"
#include "base/status.h"

namespace remontoir {

// kInvalidArgument: this processor has no kernels of that name.
Status BenchKernels(const BenchKernelsOptions& options, std::FILE* out);

}  // namespace remontoir
