// A model without arithmetic: rounds take as long as a cost model says, and every token is the
// same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/model_runner.h"
#include "scheduler/cost_model.h"

namespace remontoir {

// What a round computes. A single wanted row behind others counts as a decode row: a prompt whose
// last chunk is one token looks the same, and costs nearly the same.
RoundWork WorkOf(std::span<const BatchSequence> batch);

// Pages that nobody reads.
class SimulatedKvStore final : public KvStore {
 public:
  KvPageRange dynamic_pages() const override { return {}; }
  int32_t dynamic_granule() const override { return 1; }
  Status TakeDynamic(KvPageRange) override { return Unsupported("no dynamic room"); }
  void GiveBackDynamic(KvPageRange) override {}
  void CopyKvTokens(KvPageId, KvPageId, int32_t) override {}
};

class SimulatedRunner final : public ModelRunner {
 public:
  static constexpr int32_t kVocabulary = 2;

  // `pass` lets so many microseconds pass, at least 1: the clock moves, others act meanwhile.
  SimulatedRunner(const RoundLimits& limits, const CostModel& costs,
                  std::function<void(int64_t us)> pass);

  void Run(std::span<const BatchSequence> batch) override;
  std::span<const float> Logits(int32_t i) const override;
  KvStore& kv_store() override { return pages_; }
  ThreadCosts WorkerCosts() const override { return {}; }

 private:
  SimulatedKvStore pages_;
  const CostModel costs_;
  const std::function<void(int64_t us)> pass_;
};

}  // namespace remontoir
