// A model without arithmetic whose logits tell whether it was fed the right tokens and pages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "base/random.h"
#include "model/model_runner.h"

namespace remontoir {

inline constexpr int32_t kFakeVocabulary = 61;
inline constexpr int32_t kFakeLayers = 30;  // that are sealed

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

struct FakeCell {
  int32_t token = -1;
  uint64_t chain = 0;
};

// Arena pages, then dynamic ones, which hold nothing while the system has them.
class FakeKvStore : public KvStore {
 public:
  FakeKvStore(int32_t arena_pages, int32_t dynamic_pages)
      : cells(size_t{64} * (arena_pages + dynamic_pages)),
        dynamic_{KvPageId(arena_pages), dynamic_pages} {}

  KvPageRange dynamic_pages() const override { return dynamic_; }
  int32_t dynamic_granule() const override { return 1; }
  Status TakeDynamic(KvPageRange range) override {
    if (dynamic_fails) return ResourceExhausted("no memory");
    std::fill_n(CellsOf(range.begin), 64 * range.count, FakeCell{});
    taken_ += range.count;
    return Status::Ok();
  }
  void GiveBackDynamic(KvPageRange range) override { taken_ -= range.count; }
  void CopyKvTokens(KvPageId from, KvPageId to, int32_t tokens) override {
    std::copy_n(CellsOf(from), tokens, CellsOf(to));
    ++copies;
  }

  FakeCell* CellsOf(KvPageId page) { return cells.data() + size_t{64} * Index(page); }
  int32_t taken() const { return taken_; }

  std::vector<FakeCell> cells;
  bool dynamic_fails = false;
  int copies = 0;

 private:
  const KvPageRange dynamic_;
  int32_t taken_ = 0;
};

// Its pages hold what a real one's would: the token of each position and a hash of all before it.
// Every round reads the whole past back from the pages that it is given, and a sparse row the hash
// that was sealed of each far segment, in each layer.
class FakeModelRunner : public ModelRunner {
 public:
  FakeModelRunner(const RoundLimits& limits, int32_t page_count, int32_t dynamic_page_count = 0)
      : ModelRunner(FakeShape(), limits), pages(page_count, dynamic_page_count) {
    logits_.resize(size_t{kFakeVocabulary} * limits.logit_rows_max);
    sealed_.resize(static_cast<size_t>(limits.sparse.segments) * kFakeLayers);
    pages_read_.reserve(size_t(limits.context_max / 64 + 1) * limits.sequences_max);
    pages_written_.reserve(pages_read_.capacity());
  }

  KvStore& kv_store() override { return pages; }
  ThreadCosts WorkerCosts() const override { return {}; }
  SparseReadings ReadingsOf(int32_t) const override { return {64, 16, 0.05F}; }
  int32_t sealed_layers() const override { return limits().sparse.engage_at > 0 ? kFakeLayers : 0; }

  FakeKvStore pages;

  // Called on the engine's thread at the start of every Run.
  std::function<void(std::span<const BatchSequence>)> on_run;

  void Run(std::span<const BatchSequence> batch) override {
    if (on_run) on_run(batch);
    int32_t rows = 0;
    logit_rows_ = 0;
    pages_read_.clear();
    pages_written_.clear();
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
  FakeCell& At(const BatchSequence& sequence, int32_t position) {
    return pages.CellsOf(sequence.pages[position / 64])[position % 64];
  }

  uint64_t& SealedAt(const BatchSequence& sequence, int32_t seal) {
    const auto segment = static_cast<size_t>(Index(sequence.sealed[seal / kFakeLayers]));
    return sealed_[segment * kFakeLayers + static_cast<size_t>(seal % kFakeLayers)];
  }

  // After the keys of its rows: what is sealed in the round, and what its sparse rows need.
  void Seal(const BatchSequence& sequence) {
    const int32_t end = sequence.first_position + static_cast<int32_t>(sequence.tokens.size());
    const SealRange seals = sequence.seals.value_or(SealRange{});
    // Sealed ones that came with its pages may be ahead of their turn.
    EXPECT_TRUE(seals.count() == 0 || seals.end <= SealsDue(end, kFakeLayers));
    EXPECT_LE(seals.end, std::max(0, end - kAnchorKeys) / kSegmentKeys * kFakeLayers);
    for (int32_t seal = seals.begin; seal < seals.end; ++seal) {
      SealedAt(sequence, seal) = At(sequence, SegmentEnd(seal / kFakeLayers) - 1).chain;
    }
    if (sequence.tokens.empty() || end <= limits().sparse.engage_at) return;
    for (int32_t seal = 0; seal < FarSegments(end - 1) * kFakeLayers; ++seal) {
      EXPECT_EQ(SealedAt(sequence, seal), At(sequence, SegmentEnd(seal / kFakeLayers) - 1).chain)
          << "far but not sealed: " << seal;
    }
  }

  void RunSequence(const BatchSequence& sequence) {
    const auto count = static_cast<int32_t>(sequence.tokens.size());
    const int32_t end = sequence.first_position + count;
    EXPECT_TRUE(count > 0 || sequence.seals.value_or(SealRange{}).count() > 0);
    EXPECT_LE(end, limits().context_max);
    EXPECT_GE(sequence.pages.size() * 64, static_cast<size_t>(end));
    // Who writes a page has it alone.
    for (size_t i = 0; i < sequence.pages.size(); ++i) {
      const KvPageId page = sequence.pages[i];
      const bool written = static_cast<int32_t>(i) >= sequence.first_position / 64;
      for (const KvPageId other : pages_written_) EXPECT_NE(page, other) << "a page in use";
      if (written) {
        for (const KvPageId other : pages_read_) EXPECT_NE(page, other) << "a page in use";
      }
      (written ? pages_written_ : pages_read_).push_back(page);
    }
    uint64_t chain = 0;
    for (int32_t position = 0; position < end; ++position) {
      FakeCell& cell = At(sequence, position);
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
    if (!sequence.sealed.empty()) Seal(sequence);
  }

  std::vector<float> logits_;
  std::vector<uint64_t> sealed_;  // [segments][kFakeLayers]
  std::vector<KvPageId> pages_read_;
  std::vector<KvPageId> pages_written_;
  int32_t logit_rows_ = 0;
};

}  // namespace remontoir
