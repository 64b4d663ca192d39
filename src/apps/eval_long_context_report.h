// How `remontoir eval longcontext` prints what it measured.
#pragma once

#include <cstdio>
#include <optional>

#include "apps/eval_options.h"
#include "eval/long_context.h"
#include "eval/needle_trials.h"

namespace remontoir {

// Tables for people.
void PrintLongContext(const EvalLongContextOptions& options, const LongContextReport& report,
                      std::FILE* out);
void PrintNeedles(const NeedleReport& needles, std::FILE* out);

// One JSON object of both.
void PrintLongContextJson(const EvalLongContextOptions& options, const LongContextReport& report,
                          const std::optional<NeedleReport>& needles, std::FILE* out);

}  // namespace remontoir
