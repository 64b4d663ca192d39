// How long a round takes: microseconds a prefill token and a decode row, learnt from past rounds.
#pragma once

#include <cstdint>

namespace remontoir {

// The first measurement of each kind replaces the starting guess, later ones move it by a quarter.
// What a round costs whatever is in it counts as its decode rows' share, or its prefill's without
// any.
struct CostEstimate {
  double prefill_token_us = 1000;
  double decode_row_us = 5000;
  bool prefill_measured = false;
  bool decode_measured = false;

  // A round of so many rows took round_us.
  void Commit(int32_t prefill_tokens, int32_t decode_rows, int64_t round_us);

  // Prefill tokens that fit into window_us beside the decode rows; may be negative, at most 2^30.
  int64_t PrefillTokensWithin(int64_t window_us, int32_t decode_rows) const;
};

}  // namespace remontoir
