// A model without arithmetic whose logits tell whether it was fed the right tokens and pages.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "base/random.h"
#include "model/model_runner.h"

namespace remontoir {

inline constexpr int32_t kFakeVocabulary = 61;

// A hash of tokens 0 ... position, given that of the tokens before.
inline uint64_t FakeChain(uint64_t before, int32_t token, int32_t position) {
  return CounterRandom(before, token).Bits(position);
}

inline void FakeLogits(uint64_t chain, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(CounterRandom(chain, 7).Uniform(i) * 6 - 3);
  }
}

inline ModelShape FakeShape() {
  ModelShape shape;
  shape.vocabulary_size = kFakeVocabulary;
  return shape;
}

// Its pages hold what a real one's would: the token of each position and a hash of all before it.
// Every round reads the whole past back from the pages that it is given.
class FakeModelRunner : public ModelRunner {
 public:
  FakeModelRunner(const RoundLimits& limits, int32_t page_count)
      : ModelRunner(FakeShape(), limits), cells_(size_t{64} * page_count) {
    logits_.resize(size_t{kFakeVocabulary} * limits.logit_rows_max);
    pages_seen_.reserve(page_count);
  }

  // Called on the engine's thread at the start of every Run.
  std::function<void(std::span<const BatchSequence>)> on_run;

  void Run(std::span<const BatchSequence> batch) override {
    if (on_run) on_run(batch);
    int32_t rows = 0;
    logit_rows_ = 0;
    pages_seen_.clear();
    for (const BatchSequence& sequence : batch) {
      rows += static_cast<int32_t>(sequence.tokens.size());
      RunSequence(sequence);
    }
    EXPECT_LE(rows, limits().rows_max);
    EXPECT_LE(static_cast<int32_t>(batch.size()), limits().sequences_max);
  }

  std::span<const float> Logits(int32_t i) const override {
    EXPECT_LT(i, logit_rows_);
    return std::span(logits_).subspan(size_t{kFakeVocabulary} * i, kFakeVocabulary);
  }

 private:
  struct Cell {
    int32_t token = -1;
    uint64_t chain = 0;
  };

  Cell& At(const BatchSequence& sequence, int32_t position) {
    return cells_[size_t{64} * Index(sequence.pages[position / 64]) + position % 64];
  }

  void RunSequence(const BatchSequence& sequence) {
    const auto count = static_cast<int32_t>(sequence.tokens.size());
    const int32_t end = sequence.first_position + count;
    EXPECT_GT(count, 0);
    EXPECT_LE(end, limits().context_max);
    EXPECT_GE(sequence.pages.size() * 64, static_cast<size_t>(end));
    for (const KvPageId page : sequence.pages) {
      for (const KvPageId other : pages_seen_) EXPECT_NE(page, other) << "a page with two owners";
      pages_seen_.push_back(page);
    }
    uint64_t chain = 0;
    for (int32_t position = 0; position < end; ++position) {
      Cell& cell = At(sequence, position);
      const int32_t row = position - sequence.first_position;
      const int32_t token = row < 0 ? cell.token : sequence.tokens[row];
      chain = FakeChain(chain, token, position);
      if (row < 0) {
        EXPECT_EQ(cell.chain, chain) << "the past was overwritten";
        continue;
      }
      cell = {token, chain};
      if (row < sequence.logits_begin) continue;
      EXPECT_LT(logit_rows_, limits().logit_rows_max);
      FakeLogits(chain, std::span(logits_).subspan(size_t{kFakeVocabulary} * logit_rows_,
                                                   kFakeVocabulary));
      ++logit_rows_;
    }
  }

  std::vector<Cell> cells_;
  std::vector<float> logits_;
  std::vector<KvPageId> pages_seen_;
  int32_t logit_rows_ = 0;
};

}  // namespace remontoir
