// Round by round: the exact sequence, then the sparse one with the same tokens.
#include "eval/long_context.h"

#include <algorithm>

#include "base/check.h"
#include "eval/sequence_pass.h"
#include "tensor/tile_schedule.h"

namespace remontoir {
namespace {

using Attention = SequencePass::Attention;
using Rows = std::vector<std::vector<float>>;

class Comparison {
 public:
  Comparison(ModelRunner& runner, std::span<const int32_t> tokens,
             const LongContextOptions& options)
      : runner_(runner),
        tokens_(tokens),
        options_(options),
        exact_(runner, Count(), 0, Attention::kExact),
        sparse_(runner, Count(), SequencePass::PagesFor(Count()), Attention::kSparse) {
    if (options.exact_prompt) {
      exact_prompt_.emplace(runner, Count(), SequencePass::PagesFor(Count()), Attention::kExact);
    }
    if (options.float32 != nullptr) {
      float32_.emplace(*options.float32, Count(), 0, Attention::kExact);
    }
    if (options.layer_kernels != nullptr) probe_.emplace(*options.layer_kernels, Sample());
  }

  LongContextReport Run(const LongContextProgress& progress) {
    for (int32_t first = 0; first < Count();) {
      const int32_t rows = RowsFrom(first);
      RunAll(first, rows);
      first += rows;
      if (progress) progress(first);
    }
    return Report();
  }

 private:
  int32_t Count() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t DecodeFrom() const { return std::min(options_.decode_from, Count()); }

  LayerSample Sample() const {
    const int32_t first = std::max(options_.scored_from, runner_.limits().sparse.engage_at);
    if (DecodeFrom() == Count()) {
      return SamplePositions(first, Count(), kRowGroupPositions, kLayerPositionsMax);
    }
    return SamplePositions(std::max(first, DecodeFrom()), Count(), 1, kLayerPositionsMax);
  }

  int32_t RowsFrom(int32_t first) const {
    if (first >= DecodeFrom()) return 1;
    const bool scored = first + exact_.rows_max() > options_.scored_from;
    const int32_t rows_max = scored ? exact_.logit_rows_max() : exact_.rows_max();
    return std::min(rows_max, DecodeFrom() - first);
  }

  // The logits of one pass, from logits_begin on.
  Rows RunOne(SequencePass& pass, int32_t first, int32_t rows, int32_t logits_begin) const {
    pass.Run(tokens_.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)), first,
             logits_begin);
    Rows logits;
    for (int32_t row = 0; row < rows - logits_begin; ++row) {
      const std::span<const float> one = pass.runner().Logits(row);
      logits.emplace_back(one.begin(), one.end());
    }
    return logits;
  }

  // In the pages of the sparse pass, and noted.
  Rows RunSparse(int32_t first, int32_t rows, int32_t logits_begin) {
    if (exact_prompt_ && first < DecodeFrom()) {
      return RunOne(*exact_prompt_, first, rows, logits_begin);
    }
    if (exact_prompt_ && first == DecodeFrom()) sparse_.Seal(first);
    Rows logits = RunOne(sparse_, first, rows, logits_begin);
    const SparseReadings readings = runner_.backend().ReadingsOf(0);
    far_blocks_ += readings.far_blocks;
    chosen_blocks_ += readings.chosen_blocks;
    residual_max_ = std::max(residual_max_, readings.residual_max);
    return logits;
  }

  void RunAll(int32_t first, int32_t rows) {
    const int32_t logits_begin = std::clamp(options_.scored_from - first, 0, rows);
    if (probe_) {
      runner_.backend().ObserveAttention(
          [this](const AttentionBatch& batch) { probe_->Observe(batch); });
    }
    const Rows exact = RunOne(exact_, first, rows, logits_begin);
    if (probe_) runner_.backend().ObserveAttention(nullptr);
    const Rows sparse = RunSparse(first, rows, logits_begin);
    Rows float32;
    if (float32_) float32 = RunOne(*float32_, first, rows, logits_begin);
    for (size_t i = 0; i < exact.size(); ++i) {
      const size_t next = static_cast<size_t>(first) + static_cast<size_t>(logits_begin) + i + 1;
      if (next == tokens_.size()) break;
      sparse_distance_.Add(exact[i], sparse[i], tokens_[next]);
      if (!float32_) continue;
      rounding_exact_.Add(float32[i], exact[i], tokens_[next]);
      rounding_sparse_.Add(float32[i], sparse[i], tokens_[next]);
    }
  }

  LongContextReport Report() const {
    LongContextReport report;
    report.sparse = sparse_distance_.Get();
    if (far_blocks_ > 0) {
      report.density = static_cast<double>(chosen_blocks_) / static_cast<double>(far_blocks_);
    }
    report.residual_max = residual_max_;
    if (float32_) {
      report.rounding = LongContextReport::Rounding{rounding_exact_.Get(), rounding_sparse_.Get()};
    }
    if (probe_) {
      const SparseAttentionOptions& sparse = runner_.limits().sparse;
      report.layers = probe_->Measure(
          {.epsilon = sparse.epsilon, .residual_max = sparse.residual_max}, sparse.block_keys);
    }
    return report;
  }

  ModelRunner& runner_;
  const std::span<const int32_t> tokens_;
  const LongContextOptions options_;
  SequencePass exact_;
  SequencePass sparse_;
  std::optional<SequencePass> exact_prompt_;  // in the pages of sparse_
  std::optional<SequencePass> float32_;
  std::optional<LayerProbe> probe_;
  PredictionMeter sparse_distance_, rounding_exact_, rounding_sparse_;
  int64_t far_blocks_ = 0;
  int64_t chosen_blocks_ = 0;
  float residual_max_ = 0;
};

}  // namespace

LongContextReport CompareLongContext(ModelRunner& runner, std::span<const int32_t> tokens,
                                     const LongContextOptions& options,
                                     const LongContextProgress& progress) {
  REM_CHECK(tokens.size() >= 2 && std::ssize(tokens) <= runner.limits().context_max,
            "a text that fits the context");
  return Comparison(runner, tokens, options).Run(progress);
}

}  // namespace remontoir
