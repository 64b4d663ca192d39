// `remontoir eval logits`: checks a model against reference numbers.
#pragma once

#include <cstdio>

#include "apps/eval_options.h"
#include "base/status.h"

namespace remontoir {

// Runs the tokens, as they are, through the model and compares the logits after each with the
// reference's row (a reference of fewer rows than tokens has those of the last ones). Prints the
// distances; an error where they exceed the bounds.
Status EvalLogits(const EvalLogitsOptions& options, std::FILE* out);

}  // namespace remontoir
