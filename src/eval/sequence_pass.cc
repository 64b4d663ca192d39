// Pages and segments in a row.
#include "eval/sequence_pass.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/tile_schedule.h"

namespace remontoir {

SequencePass::SequencePass(ModelRunner& runner, int32_t tokens_max, int32_t first_page,
                           Attention attention)
    : runner_(runner) {
  REM_CHECK(tokens_max <= runner.limits().context_max, "tokens fit the context");
  const int32_t pages = PagesFor(tokens_max);
  for (int32_t page = 0; page < pages; ++page) pages_.push_back(KvPageId(first_page + page));
  if (attention == Attention::kExact) return;
  const int32_t segments = FarSegments(tokens_max) + 1;
  REM_CHECK(segments <= runner.limits().sparse.segments, "segments for the tokens");
  for (int32_t s = 0; s < segments; ++s) segments_.push_back(SealedSegmentId(s));
}

int32_t SequencePass::PagesFor(int32_t tokens) {
  return (tokens + kKvPageTokens - 1) / kKvPageTokens;
}

void SequencePass::Run(std::span<const int32_t> tokens, int32_t first_position,
                       int32_t logits_begin) {
  const BatchSequence sequence = {.tokens = tokens,
                                  .first_position = first_position,
                                  .pages = pages_,
                                  .logits_begin = logits_begin,
                                  .sealed = segments_};
  runner_.Run({&sequence, 1});
}

void SequencePass::Seal(int32_t tokens) {
  const SealRange seals = {.begin = 0, .end = SealsDue(tokens, runner_.sealed_layers())};
  if (seals.count() == 0) return;
  const BatchSequence sequence = {
      .tokens = {}, .first_position = tokens, .pages = pages_, .sealed = segments_, .seals = seals};
  runner_.Run({&sequence, 1});
}

void SequencePass::Prefill(std::span<const int32_t> tokens) {
  const auto count = static_cast<int32_t>(tokens.size());
  for (int32_t first = 0; first < count; first += rows_max()) {
    const int32_t rows = std::min(rows_max(), count - first);
    Run(tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)), first, rows);
  }
}

int32_t SequencePass::rows_max() const {
  return runner_.limits().rows_max / kRowGroupPositions * kRowGroupPositions;
}

int32_t SequencePass::logit_rows_max() const {
  const int32_t rows = std::min(runner_.limits().rows_max, runner_.limits().logit_rows_max);
  return rows / kRowGroupPositions * kRowGroupPositions;
}

}  // namespace remontoir
