// Runs rounds of a tiny model: hands out pages, builds inputs, collects every row's logits.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "tests/unit/backend/tiny_model.h"

namespace remontoir::testing {

// Tokens of one sequence that a round takes.
struct Chunk {
  size_t sequence;
  int32_t tokens;
};

class Rounds {
 public:
  static constexpr int32_t kRowsMax = 256;
  static constexpr int32_t kContextMax = 2560;

  // sparse.segments is found from the context.
  Rounds(const TinyModel& model, const CpuBackendOptions& options, int32_t sequences_max = 4,
         SparseAttentionOptions sparse = {}) {
    Result<std::unique_ptr<Backend>> made = MakeCpuBackend(options);
    REM_CHECK(made.ok(), made.status().message());
    backend_ = std::move(*made);
    Program program = model.Load(*backend_);
    sparse.segments = sparse.engage_at > 0 ? sequences_max * kContextMax / kSegmentKeys : 0;
    const RoundLimits limits{kRowsMax, sequences_max, kRowsMax, kContextMax, sparse};
    sparse_ = sparse.engage_at > 0;
    const Status prepared =
        backend_->Prepare(std::move(program), model.layout(),
                          {.arena_pages = sequences_max * kContextMax / kKvPageTokens}, limits);
    REM_CHECK(prepared.ok(), prepared.message());
    sequences_.reserve(static_cast<size_t>(sequences_max));
  }

  Backend& backend() { return *backend_; }

  size_t Add(std::vector<int32_t> tokens, bool exact = false) {
    sequences_.push_back({std::move(tokens), 0, {}, {}, {}, exact || !sparse_});
    return sequences_.size() - 1;
  }

  // Runs the next tokens of these sequences in one round and keeps the logits of every row.
  void Run(const std::vector<Chunk>& chunks) { RunPrepared(chunks, Prepare(chunks)); }

  // The same with inputs that the caller may have changed.
  void RunPrepared(const std::vector<Chunk>& chunks, const RoundInputs& inputs) {
    backend_->Run(inputs);
    int32_t row = 0;
    for (const Chunk& chunk : chunks) {
      Sequence& sequence = sequences_[chunk.sequence];
      sequence.done += chunk.tokens;
      for (int32_t i = 0; i < chunk.tokens; ++i, ++row) {
        const auto logits = backend_->Logits(row);
        sequence.logits.emplace_back(logits.begin(), logits.end());
      }
    }
  }

  // Builds the inputs of a round without running it.
  const RoundInputs& Prepare(const std::vector<Chunk>& chunks) {
    tokens_.clear();
    positions_.clear();
    cu_q_ = {0};
    cu_k_ = {0};
    pages_.clear();
    pages_begin_ = {0};
    logit_rows_.clear();
    sealed_.clear();
    sealed_begin_ = {0};
    for (const Chunk& chunk : chunks) {
      Sequence& sequence = sequences_[chunk.sequence];
      for (int32_t i = 0; i < chunk.tokens; ++i) {
        const int32_t position = sequence.done + i;
        logit_rows_.push_back(static_cast<int32_t>(tokens_.size()));
        tokens_.push_back(sequence.tokens[static_cast<size_t>(position)]);
        positions_.push_back(position);
        // Pages of sequences interleave, so that a wrong table can't go unnoticed.
        if (position % kKvPageTokens == 0 &&
            sequence.pages.size() * kKvPageTokens <= static_cast<size_t>(position)) {
          sequence.pages.push_back(KvPageId(next_page_++));
        }
        const auto segments = static_cast<int32_t>(sequence.sealed.size());
        if (!sequence.exact && position + 1 == SegmentEnd(segments)) {
          sequence.sealed.push_back(SealedSegmentId(next_segment_++));
        }
      }
      cu_q_.push_back(static_cast<int32_t>(tokens_.size()));
      cu_k_.push_back(cu_k_.back() + sequence.done + chunk.tokens);
      pages_.insert(pages_.end(), sequence.pages.begin(), sequence.pages.end());
      pages_begin_.push_back(static_cast<int32_t>(pages_.size()));
      sealed_.insert(sealed_.end(), sequence.sealed.begin(), sequence.sealed.end());
      sealed_begin_.push_back(static_cast<int32_t>(sealed_.size()));
    }
    inputs_ = {tokens_,      positions_,  cu_q_,   cu_k_,        pages_,
               pages_begin_, logit_rows_, sealed_, sealed_begin_};
    return inputs_;
  }

  // [tokens so far][vocabulary]
  const std::vector<std::vector<float>>& Logits(size_t sequence) const {
    return sequences_[sequence].logits;
  }
  int32_t Left(size_t sequence) const {
    return static_cast<int32_t>(sequences_[sequence].tokens.size()) - sequences_[sequence].done;
  }

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    int32_t done;
    std::vector<KvPageId> pages;
    std::vector<std::vector<float>> logits;
    std::vector<SealedSegmentId> sealed;
    bool exact;
  };

  std::unique_ptr<Backend> backend_;
  std::vector<Sequence> sequences_;
  int32_t next_page_ = 0;
  int32_t next_segment_ = 0;
  bool sparse_ = false;
  std::vector<int32_t> tokens_, positions_, cu_q_, pages_begin_, logit_rows_;
  std::vector<int64_t> cu_k_;
  std::vector<KvPageId> pages_;
  std::vector<SealedSegmentId> sealed_;
  std::vector<int32_t> sealed_begin_;
  RoundInputs inputs_;
};

}  // namespace remontoir::testing
