// Round by round: the exact sequence, then the sparse one with the same tokens.
#include "eval/long_context.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "sampling/logprobs.h"

namespace remontoir {
namespace {

// Rounds of sparse rows begin and end at multiples of it.
constexpr int32_t kGroup = 8;

struct Scores {
  std::vector<double> divergences;
  double loss_exact = 0;
  double loss_sparse = 0;
  int64_t same_top = 0;
};

void Score(std::span<const float> exact, std::span<const float> sparse, int32_t next,
           Scores* scores) {
  const double exact_sum = LogSumExp(exact);
  const double sparse_sum = LogSumExp(sparse);
  double divergence = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double logprob = exact[i] - exact_sum;
    divergence += std::exp(logprob) * (logprob - (sparse[i] - sparse_sum));
  }
  scores->divergences.push_back(std::max(0.0, divergence));
  scores->loss_exact += exact_sum - exact[static_cast<size_t>(next)];
  scores->loss_sparse += sparse_sum - sparse[static_cast<size_t>(next)];
  const auto top = [](std::span<const float> logits) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  scores->same_top += top(exact) == top(sparse) ? 1 : 0;
}

class Comparison {
 public:
  Comparison(ModelRunner& runner, std::span<const int32_t> tokens,
             const LongContextOptions& options)
      : runner_(runner),
        tokens_(tokens),
        options_(options),
        page_count_((tokens.size() + kKvPageTokens - 1) / kKvPageTokens) {
    for (size_t i = 0; i < 2 * page_count_; ++i) {
      pages_.push_back(KvPageId(static_cast<int32_t>(i)));
    }
    const int32_t segments = FarSegments(static_cast<int32_t>(tokens.size())) + 1;
    REM_CHECK(segments <= runner.limits().sparse.segments, "segments for the text");
    for (int32_t s = 0; s < segments; ++s) segments_.push_back(SealedSegmentId(s));
  }

  LongContextReport Run(const LongContextProgress& progress) {
    const auto count = static_cast<int32_t>(tokens_.size());
    for (int32_t first = 0; first < count;) {
      const int32_t rows = RowsFrom(first);
      RunBoth(first, rows);
      first += rows;
      if (progress) progress(first);
    }
    return Report();
  }

 private:
  int32_t RowsFrom(int32_t first) const {
    const auto count = static_cast<int32_t>(tokens_.size());
    const int32_t decode_from = std::min(options_.decode_from, count);
    if (first >= decode_from) return 1;
    const bool scored = first + runner_.limits().rows_max > options_.scored_from;
    const int32_t rows_max =
        scored ? std::min(runner_.limits().rows_max, runner_.limits().logit_rows_max)
               : runner_.limits().rows_max;
    return std::min(rows_max / kGroup * kGroup, decode_from - first);
  }

  BatchSequence SequenceAt(int32_t first, int32_t rows, bool sparse) const {
    BatchSequence sequence;
    sequence.tokens = tokens_.subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
    sequence.first_position = first;
    sequence.pages = std::span(pages_).subspan(sparse ? page_count_ : 0, page_count_);
    sequence.logits_begin = std::clamp(options_.scored_from - first, 0, rows);
    if (sparse) sequence.sealed = segments_;
    return sequence;
  }

  void RunBoth(int32_t first, int32_t rows) {
    const BatchSequence exact = SequenceAt(first, rows, false);
    runner_.Run({&exact, 1});
    exact_logits_.clear();
    for (int32_t row = exact.logits_begin; row < rows; ++row) {
      const std::span<const float> logits = runner_.Logits(row - exact.logits_begin);
      exact_logits_.emplace_back(logits.begin(), logits.end());
    }
    const BatchSequence sparse = SequenceAt(first, rows, true);
    runner_.Run({&sparse, 1});
    for (int32_t row = sparse.logits_begin; row < rows; ++row) {
      const size_t next = static_cast<size_t>(first) + static_cast<size_t>(row) + 1;
      if (next == tokens_.size()) break;
      Score(exact_logits_[static_cast<size_t>(row - sparse.logits_begin)],
            runner_.Logits(row - sparse.logits_begin), tokens_[next], &scores_);
    }
    const SparseReadings readings = runner_.backend().ReadingsOf(0);
    far_blocks_ += readings.far_blocks;
    chosen_blocks_ += readings.chosen_blocks;
    residual_max_ = std::max(residual_max_, readings.residual_max);
  }

  LongContextReport Report() {
    LongContextReport report;
    report.predictions = std::ssize(scores_.divergences);
    if (far_blocks_ > 0) {
      report.density = static_cast<double>(chosen_blocks_) / static_cast<double>(far_blocks_);
    }
    report.residual_max = residual_max_;
    if (report.predictions == 0) return report;
    const auto count = static_cast<double>(report.predictions);
    report.perplexity_exact = std::exp(scores_.loss_exact / count);
    report.perplexity_sparse = std::exp(scores_.loss_sparse / count);
    report.top1_agreement = static_cast<double>(scores_.same_top) / count;
    for (const double divergence : scores_.divergences) report.kl_mean += divergence / count;
    const auto rank = static_cast<std::ptrdiff_t>(0.99 * (count - 1));
    std::nth_element(scores_.divergences.begin(), scores_.divergences.begin() + rank,
                     scores_.divergences.end());
    report.kl_p99 = scores_.divergences[static_cast<size_t>(rank)];
    return report;
  }

  ModelRunner& runner_;
  const std::span<const int32_t> tokens_;
  const LongContextOptions options_;
  const size_t page_count_;  // of one sequence
  std::vector<KvPageId> pages_;
  std::vector<SealedSegmentId> segments_;
  std::vector<std::vector<float>> exact_logits_;
  Scores scores_;
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
