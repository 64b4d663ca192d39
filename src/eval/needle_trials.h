// Codes in long prompts, asked for exactly and sparsely: what sparse attention still finds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "eval/needles.h"
#include "model/model_runner.h"
#include "tokenizer/tokenizer.h"

namespace remontoir {

struct NeedleTrial {
  int32_t prompt = 0;
  Needle needle = {};
  int32_t depth = 0;  // the position of its sentence
  NeedleAnswer exact = {};
  NeedleAnswer sparse = {};

  bool missed() const { return exact.found && !sparse.found; }
};

struct NeedleReport {
  int32_t prompt_tokens = 0;  // of each prompt, the question left out
  std::vector<NeedleTrial> trials;

  int32_t found_exact() const;
  int32_t kept() const;  // of these, found sparsely too
};

// Prompts that `needles` take.
int32_t NeedlePrompts(int32_t needles);

// Prompts of nearly the whole context, made of `text` (without BOS) from different places on, with
// up to 16 needles each at depths that are far at the end; each is read whole, exactly and
// sparsely, then asked for every needle. The runner is prepared for sparse attention with segments
// for one text of its context and with pages for two. InvalidArgument: the text is shorter than a
// prompt.
Result<NeedleReport> TryNeedles(ModelRunner& runner, const Tokenizer& tokenizer,
                                std::span<const int32_t> text, int32_t needles,
                                const std::function<void(int32_t prompts_done)>& progress);

}  // namespace remontoir
