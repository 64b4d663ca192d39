// Normalised least mean squares over the three terms of a round's cost.
#include "scheduler/cost_estimate.h"

#include <algorithm>

namespace remontoir {

double CostEstimate::PredictUs(int32_t prefill_tokens, int32_t decode_rows) const {
  return round_us + prefill_token_us * prefill_tokens + decode_row_us * decode_rows;
}

void CostEstimate::Commit(int32_t prefill_tokens, int32_t decode_rows, int64_t measured_us) {
  constexpr double kStep = 0.5;
  // Amounts that cost about as much as the fixed part, so that no term learns for the others.
  constexpr double kPrefillUnit = 8;
  constexpr double kDecodeUnit = 4;
  constexpr double kPrefillTokenUsMin = 0.01;  // a clock that stands still doesn't make rounds free

  const double prefill = prefill_tokens / kPrefillUnit;
  const double decode = decode_rows / kDecodeUnit;
  const double error = static_cast<double>(measured_us) - PredictUs(prefill_tokens, decode_rows);
  const double correction = kStep * error / (1 + prefill * prefill + decode * decode);
  round_us = std::max(0.0, round_us + correction);
  prefill_token_us =
      std::max(kPrefillTokenUsMin, prefill_token_us + correction * prefill / kPrefillUnit);
  decode_row_us = std::max(0.0, decode_row_us + correction * decode / kDecodeUnit);
}

int64_t CostEstimate::PrefillTokensWithin(int64_t window_us, int32_t decode_rows) const {
  const double left_us = static_cast<double>(window_us) - PredictUs(0, decode_rows);
  return static_cast<int64_t>(std::clamp(left_us / prefill_token_us, 0.0, 0x1p30));
}

}  // namespace remontoir
