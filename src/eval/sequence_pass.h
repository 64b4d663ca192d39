// One sequence in a runner, attended to exactly or sparsely, from position to position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_runner.h"

namespace remontoir {

class SequencePass {
 public:
  enum class Attention { kExact, kSparse };

  // For up to tokens_max tokens in pages first_page, first_page + 1, ... of the runner's backend.
  // Sparse: the runner is prepared for it, with segments for as many tokens. Nobody else uses the
  // pages or the segments meanwhile.
  SequencePass(ModelRunner& runner, int32_t tokens_max, int32_t first_page, Attention attention);

  // Pages that so many tokens take.
  static int32_t PagesFor(int32_t tokens);

  // Computes tokens at this position and after it, in one round. What was there and behind is
  // forgotten. The runner's logits are those of the rows from logits_begin on.
  void Run(std::span<const int32_t> tokens, int32_t first_position, int32_t logits_begin);

  // Tokens at position 0 and after it, in as many rounds as it takes, without logits.
  void Prefill(std::span<const int32_t> tokens);

  // Of a sparse pass whose first tokens another pass computed in the same pages: seals what is due
  // when there are so many.
  void Seal(int32_t tokens);

  // Of a round without and with logits, at most; a multiple of the 8 positions of a row group.
  int32_t rows_max() const;
  int32_t logit_rows_max() const;

  ModelRunner& runner() { return runner_; }

 private:
  ModelRunner& runner_;
  std::vector<KvPageId> pages_;
  std::vector<SealedSegmentId> segments_;
};

}  // namespace remontoir
