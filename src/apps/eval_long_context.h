// `remontoir eval longcontext`: sparse against exact attention on one text.
#pragma once

#include <cstdio>

#include "apps/eval_options.h"
#include "base/status.h"

namespace remontoir {

// Reads the text's first tokens exactly and in mode custom_sparse, and prints what that changes in
// the predictions at its end.
Status EvalLongContext(const EvalLongContextOptions& options, std::FILE* out);

}  // namespace remontoir
