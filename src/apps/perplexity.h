// `remontoir perplexity`: how well a model foresees a text.
#pragma once

#include <cstdio>

#include "apps/tool_options.h"
#include "base/status.h"

namespace remontoir {

// Cuts the text's tokens into windows that know nothing of each other, and prints the perplexity of
// every token but each window's first (after a BOS, where the vocabulary adds one, of every token).
Status MeasurePerplexity(const PerplexityOptions& options, std::FILE* out);

}  // namespace remontoir
