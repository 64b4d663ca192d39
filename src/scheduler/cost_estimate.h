// How long a round takes, learnt from past rounds.
#pragma once

#include <cstdint>

namespace remontoir {

// round_us + prefill_token_us * P + decode_row_us * D microseconds for a round of P prefill tokens
// and D decode rows. Starts with a small model's costs on two cores.
struct CostEstimate {
  double round_us = 6000;
  double prefill_token_us = 1000;
  double decode_row_us = 1700;

  double PredictUs(int32_t prefill_tokens, int32_t decode_rows) const;

  // A round took measured_us: half of the error is shared out among the terms by their weight in
  // the round (normalised least mean squares), so rounds like this one are soon predicted well.
  void Commit(int32_t prefill_tokens, int32_t decode_rows, int64_t measured_us);

  // Prefill tokens that fit into window_us beside the decode rows; 0 to 2^30.
  int64_t PrefillTokensWithin(int64_t window_us, int32_t decode_rows) const;
};

}  // namespace remontoir
