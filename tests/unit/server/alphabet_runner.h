// A model without arithmetic: after each byte comes the next one, after 'z' the end.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/model_runner.h"
#include "tests/unit/server/tiny_tokenizer.h"

namespace remontoir {

// Pages that hold nothing: what comes next depends on the last token alone.
class EmptyPages : public KvStore {
 public:
  // Behind all pages that a test's arena has.
  KvPageRange dynamic_pages() const override { return {KvPageId(1024), 16}; }
  int32_t dynamic_granule() const override { return 1; }
  Status TakeDynamic(KvPageRange) override { return Status::Ok(); }
  void GiveBackDynamic(KvPageRange) override {}
  void CopyKvTokens(KvPageId, KvPageId, int32_t) override {}
};

class AlphabetRunner : public ModelRunner {
 public:
  explicit AlphabetRunner(const RoundLimits& limits) : ModelRunner(Shape(), limits) {}

  // Called on the engine's thread before every round.
  std::function<void()> on_run;

  void Run(std::span<const BatchSequence> batch) override {
    if (on_run) on_run();
    logits_.clear();
    for (const BatchSequence& sequence : batch) {
      for (size_t i = sequence.logits_begin; i < sequence.tokens.size(); ++i) {
        std::vector<float>& row = logits_.emplace_back(kTinyVocabularySize, 0.0f);
        row[Next(sequence.tokens[i])] = 20;
      }
    }
  }

  std::span<const float> Logits(int32_t i) const override { return logits_.at(i); }
  KvStore& kv_store() override { return pages_; }
  ThreadCosts WorkerCosts() const override { return {}; }

 private:
  static ModelShape Shape() {
    ModelShape shape;
    shape.vocabulary_size = kTinyVocabularySize;
    return shape;
  }
  static int32_t Next(int32_t token) {
    if (token == 'z') return Index(kTinyEnd);
    if (token == Index(kTinyEnd)) return Index(kTinyStart);
    return token == Index(kTinyStart) ? 'a' : (token + 1) % 256;
  }

  EmptyPages pages_;
  std::vector<std::vector<float>> logits_;
};

}  // namespace remontoir
