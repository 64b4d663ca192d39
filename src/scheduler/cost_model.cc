// Weighted least squares over fading rounds, solved by projected coordinate descent.
#include "scheduler/cost_model.h"

#include <algorithm>
#include <cmath>

namespace remontoir {
namespace {

// Amounts that cost a small model about as much as a round does by itself, so that no term drowns
// the others: prompt tokens, rows, keys of rows, keys of prompt tokens, seals.
constexpr std::array<double, 6> kUnits = {1, 8, 4, 4096, 16384, 8};
constexpr double kFading = 0.99;        // of what a round weighs, with each round after it
constexpr double kHold = 1e-4;          // what a term's last value weighs beside the rounds
constexpr double kErrorShareMax = 0.5;  // of the predicted time: a larger error counts as this
constexpr int64_t kBelievedFrom = 32;   // rounds after which large errors are taken for accidents
constexpr int kSweeps = 12;
constexpr double kPrefillTokenUsMin = 0.01;  // a clock that stands still doesn't make rounds free

}  // namespace

int64_t CostModel::TokensWithin(double us, int64_t computed) const {
  if (us <= 0) return 0;
  // prefill_key/2 n^2 + (prefill_token + prefill_key computed) n = us
  const double linear = prefill_token_us + prefill_key_us * static_cast<double>(computed);
  const double root = std::sqrt(linear * linear + 2 * prefill_key_us * us);
  const double tokens = 2 * us / std::max(linear + root, 1e-9);
  // A share of n tokens must not be found to take a hair more than the time it was cut for.
  return static_cast<int64_t>(std::clamp(tokens + 1e-6, 0.0, 0x1p30));
}

int64_t CostModel::SealsWithin(double us) const {
  if (us <= 0) return 0;
  return static_cast<int64_t>(std::clamp(us / std::max(seal_us, 1e-9) + 1e-6, 0.0, 0x1p30));
}

CostFit::CostFit(const CostModel& start) : model_(start) {
  costs_ = {start.round_us * kUnits[0],       start.prefill_token_us * kUnits[1],
            start.decode_row_us * kUnits[2],  start.decode_key_us * kUnits[3],
            start.prefill_key_us * kUnits[4], start.seal_us * kUnits[5]};
}

CostFit::Terms CostFit::TermsOf(const RoundWork& work) {
  return {1 / kUnits[0],
          static_cast<double>(work.prefill_tokens) / kUnits[1],
          static_cast<double>(work.decode_rows) / kUnits[2],
          static_cast<double>(work.decode_keys) / kUnits[3],
          work.prefill_keys / kUnits[4],
          static_cast<double>(work.seals) / kUnits[5]};
}

void CostFit::Add(const RoundWork& work, int64_t measured_us) {
  const double predicted = std::max(model_.PredictUs(work), 1.0);
  double measured = static_cast<double>(measured_us);
  if (++rounds_ > kBelievedFrom) {
    measured =
        std::clamp(measured, predicted * (1 - kErrorShareMax), predicted * (1 + kErrorShareMax));
  }
  // Relative errors: a round twice as long may be twice as wrong.
  const double scale = 1 / std::max({predicted, measured, 1.0});
  Terms terms = TermsOf(work);
  for (double& term : terms) term *= scale;
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) {
      moments_[i][j] = kFading * moments_[i][j] + terms[i] * terms[j];
    }
    targets_[i] = kFading * targets_[i] + terms[i] * measured * scale;
  }
  Solve();
}

// Each term in turn takes the value that is best beside the others; its last value holds it where
// the rounds say nothing.
void CostFit::Solve() {
  const Terms before = costs_;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int i = 0; i < kTerms; ++i) {
      double rest = targets_[i];
      for (int j = 0; j < kTerms; ++j) {
        if (j != i) rest -= moments_[i][j] * costs_[j];
      }
      const double hold = kHold * moments_[0][0];
      costs_[i] = std::max(0.0, (rest + hold * before[i]) / (moments_[i][i] + hold));
    }
  }
  model_ = {.round_us = costs_[0] / kUnits[0],
            .prefill_token_us = std::max(kPrefillTokenUsMin, costs_[1] / kUnits[1]),
            .decode_row_us = costs_[2] / kUnits[2],
            .decode_key_us = costs_[3] / kUnits[3],
            .prefill_key_us = costs_[4] / kUnits[4],
            .seal_us = costs_[5] / kUnits[5]};
}

}  // namespace remontoir
