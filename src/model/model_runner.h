// Runs rounds of one loaded model: sequences' tokens in, logits out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/status.h"
#include "model/model_shape.h"

namespace remontoir {

// A sequence's share of a round.
struct BatchSequence {
  // Ids to compute, at positions first_position, +1, ...; none where it only seals.
  std::span<const int32_t> tokens;
  int32_t first_position = 0;       // keys already in its pages
  std::span<const KvPageId> pages;  // at least ceil((first_position + tokens) / 64)
  // Rows of `tokens` whose logits are wanted: [logits_begin, tokens.size()); equal: none.
  int32_t logits_begin = 0;
  // Of a sequence that is attended to sparsely: one for each segment that ends in its positions so
  // far. Empty: exactly.
  std::span<const SealedSegmentId> sealed = {};
  // See RoundInputs; none: what becomes due with the round's rows.
  std::optional<SealRange> seals = {};
};

// Flattens a batch into RoundInputs (storage taken once) and runs it.
class ModelRunner {
 public:
  // `backend` is prepared with a program whose limits are `limits`.
  ModelRunner(std::unique_ptr<Backend> backend, ModelShape shape, RoundLimits limits);
  virtual ~ModelRunner() = default;

  // Rows, sequences and logit rows stay within the limits.
  virtual void Run(std::span<const BatchSequence> batch);
  // Logits of the i-th wanted row of the last Run, counted over the batch in order: [vocabulary].
  virtual std::span<const float> Logits(int32_t i) const;

  // Of the batch's sequence at this place, in the last Run.
  virtual SparseReadings ReadingsOf(int32_t place) const { return backend_->ReadingsOf(place); }

  // Seals of a segment; 0: no layer is attended to sparsely.
  virtual int32_t sealed_layers() const { return sealed_layers_; }

  const ModelShape& shape() const { return shape_; }
  const RoundLimits& limits() const { return limits_; }
  Backend& backend() { return *backend_; }
  virtual KvStore& kv_store() { return *backend_; }
  // Null: no experts, or no device.
  const ExpertLoad* expert_load() const {
    return backend_ == nullptr ? nullptr : backend_->expert_load();
  }
  virtual ThreadCosts WorkerCosts() const { return backend_->WorkerCosts(); }

 protected:
  // For tests: a runner without a device.
  ModelRunner(ModelShape shape, RoundLimits limits);

 private:
  std::unique_ptr<Backend> backend_;
  ModelShape shape_;
  RoundLimits limits_;
  std::vector<int32_t> tokens_, positions_, cu_seqlens_q_, page_table_begin_, logit_rows_;
  std::vector<int64_t> cu_seqlens_k_;
  std::vector<KvPageId> page_table_;
  std::vector<SealedSegmentId> sealed_table_;
  std::vector<int32_t> sealed_table_begin_;
  std::vector<SealRange> seals_;
  int32_t sealed_layers_ = 0;
};

}  // namespace remontoir
