// One sequence, given tokens, all logits.
#include "eval/teacher_forcing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "sampling/logprobs.h"

namespace remontoir {

void RunTeacherForced(ModelRunner& runner, std::span<const int32_t> tokens, int32_t rows_per_round,
                      int32_t logits_begin, const LogitsVisitor& visit) {
  const auto count = static_cast<int32_t>(tokens.size());
  REM_CHECK(rows_per_round > 0 && count <= runner.limits().context_max, "tokens fit the context");
  std::vector<KvPageId> pages((tokens.size() + kKvPageTokens - 1) / kKvPageTokens);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = KvPageId(static_cast<int32_t>(i));
  const int32_t rows_max = std::min(runner.limits().rows_max, runner.limits().logit_rows_max);
  const int32_t step = std::min(rows_per_round, rows_max);
  for (int32_t first = 0; first < count; first += step) {
    const int32_t rows = std::min(step, count - first);
    const int32_t shown_from = std::clamp(logits_begin - first, 0, rows);
    const BatchSequence sequence = {.tokens = tokens.subspan(first, rows),
                                    .first_position = first,
                                    .pages = pages,
                                    .logits_begin = shown_from};
    runner.Run({&sequence, 1});
    for (int32_t row = shown_from; row < rows; ++row) {
      visit(first + row, runner.Logits(row - shown_from));
    }
  }
}

std::vector<double> NegativeLogLikelihoods(ModelRunner& runner, std::span<const int32_t> tokens) {
  std::vector<double> losses;
  RunTeacherForced(runner, tokens, runner.limits().rows_max, 0,
                   [&](int32_t position, std::span<const float> logits) {
                     if (position + 1 == std::ssize(tokens)) return;
                     losses.push_back(LogSumExp(logits) - logits[tokens[position + 1]]);
                   });
  return losses;
}

double Perplexity(std::span<const double> negative_log_likelihoods) {
  const double sum =
      std::accumulate(negative_log_likelihoods.begin(), negative_log_likelihoods.end(), 0.0);
  return std::exp(sum / static_cast<double>(negative_log_likelihoods.size()));
}

}  // namespace remontoir
