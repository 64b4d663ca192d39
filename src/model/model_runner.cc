// From sequences to the flat arrays of a round.
#include "model/model_runner.h"

#include <utility>

#include "base/check.h"

namespace remontoir {

ModelRunner::ModelRunner(ModelShape shape, RoundLimits limits)
    : shape_(std::move(shape)), limits_(limits) {
  const int64_t pages_each = (limits.context_max + kKvPageTokens - 1) / kKvPageTokens;
  tokens_.reserve(limits.rows_max);
  positions_.reserve(limits.rows_max);
  logit_rows_.reserve(limits.logit_rows_max);
  cu_seqlens_q_.reserve(limits.sequences_max + 1);
  cu_seqlens_k_.reserve(limits.sequences_max + 1);
  page_table_begin_.reserve(limits.sequences_max + 1);
  page_table_.reserve(limits.sequences_max * pages_each);
  sealed_table_.reserve(limits.sequences_max * (limits.context_max / kSegmentKeys + 1));
  sealed_table_begin_.reserve(limits.sequences_max + 1);
  seals_.reserve(limits.sequences_max);
}

ModelRunner::ModelRunner(std::unique_ptr<Backend> backend, ModelShape shape, RoundLimits limits)
    : ModelRunner(std::move(shape), limits) {
  backend_ = std::move(backend);
  sealed_layers_ = backend_->sealed_layers();
}

void ModelRunner::Run(std::span<const BatchSequence> batch) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  page_table_.clear();
  cu_seqlens_q_.assign(1, 0);
  cu_seqlens_k_.assign(1, 0);
  page_table_begin_.assign(1, 0);
  sealed_table_.clear();
  sealed_table_begin_.assign(1, 0);
  seals_.clear();
  for (const BatchSequence& sequence : batch) {
    const auto rows = static_cast<int32_t>(sequence.tokens.size());
    const auto first_row = static_cast<int32_t>(tokens_.size());
    const int64_t keys = int64_t{sequence.first_position} + rows;
    const auto pages = static_cast<size_t>((keys + kKvPageTokens - 1) / kKvPageTokens);
    const bool seals = sequence.seals.has_value() && sequence.seals->count() > 0;
    REM_CHECK((rows > 0 || seals) && keys <= limits_.context_max,
              "a sequence's rows lie in the context");
    REM_CHECK(sequence.pages.size() >= pages, "a sequence has pages for all its keys");
    tokens_.insert(tokens_.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (int32_t i = 0; i < rows; ++i) positions_.push_back(sequence.first_position + i);
    for (int32_t i = sequence.logits_begin; i < rows; ++i) logit_rows_.push_back(first_row + i);
    page_table_.insert(page_table_.end(), sequence.pages.begin(), sequence.pages.begin() + pages);
    cu_seqlens_q_.push_back(first_row + rows);
    cu_seqlens_k_.push_back(cu_seqlens_k_.back() + keys);
    page_table_begin_.push_back(static_cast<int32_t>(page_table_.size()));
    sealed_table_.insert(sealed_table_.end(), sequence.sealed.begin(), sequence.sealed.end());
    sealed_table_begin_.push_back(static_cast<int32_t>(sealed_table_.size()));
    seals_.push_back(
        sequence.seals.value_or(SealRange{SealsDue(sequence.first_position, sealed_layers_),
                                          SealsDue(static_cast<int32_t>(keys), sealed_layers_)}));
  }
  REM_CHECK(std::ssize(tokens_) <= limits_.rows_max && std::ssize(batch) <= limits_.sequences_max &&
                std::ssize(logit_rows_) <= limits_.logit_rows_max,
            "a round stays within its limits");
  backend_->Run({.tokens = tokens_,
                 .positions = positions_,
                 .cu_seqlens_q = cu_seqlens_q_,
                 .cu_seqlens_k = cu_seqlens_k_,
                 .page_table = page_table_,
                 .page_table_begin = page_table_begin_,
                 .logit_rows = logit_rows_,
                 .sealed_table = sealed_table_,
                 .sealed_table_begin = sealed_table_begin_,
                 .seals = seals_});
}

std::span<const float> ModelRunner::Logits(int32_t i) const { return backend_->Logits(i); }

}  // namespace remontoir
