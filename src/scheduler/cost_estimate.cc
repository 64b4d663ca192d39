// Moving averages of round costs.
#include "scheduler/cost_estimate.h"

#include <algorithm>

namespace remontoir {
namespace {

constexpr double kStep = 0.25;
constexpr double kLeastUs = 0.01;  // a clock that stands still must not make rounds free

void Move(double& average, bool& measured, double sample) {
  sample = std::max(sample, kLeastUs);
  average = measured ? average + kStep * (sample - average) : sample;
  measured = true;
}

}  // namespace

void CostEstimate::Commit(int32_t prefill_tokens, int32_t decode_rows, int64_t round_us) {
  const auto us = static_cast<double>(round_us);
  if (prefill_tokens > 0) {
    // A guessed decode cost could eat the whole round: only a measured one is taken off.
    const double decode_us = decode_measured ? decode_row_us * decode_rows : 0;
    Move(prefill_token_us, prefill_measured, (us - decode_us) / prefill_tokens);
  } else if (decode_rows > 0) {
    Move(decode_row_us, decode_measured, us / decode_rows);
  }
}

int64_t CostEstimate::PrefillTokensWithin(int64_t window_us, int32_t decode_rows) const {
  const double left_us = static_cast<double>(window_us) - decode_row_us * decode_rows;
  constexpr double kBound = 1 << 30;
  return static_cast<int64_t>(std::clamp(left_us / prefill_token_us, -kBound, kBound));
}

}  // namespace remontoir
