// Whole prefills of a KV head's queries, sparse beside exact: time, error and what was read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/bench_statistics.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"

namespace remontoir {

// Rows are sparse from kEngageAtCustomSparse on.
struct SparseSetting {
  int32_t block_keys = 16;
  float epsilon = 0.1F;

  friend bool operator==(const SparseSetting&, const SparseSetting&) = default;
};

// How far sparse rows are from exact ones.
struct SparseQuality {
  double rel_l2 = 0;       // |sparse - exact| / |exact|, of all sparse rows as one vector
  double rel_l2_rows = 0;  // the same of each row, their mean
  double density = 0;      // (query, key) pairs computed / pairs of the causal triangle
  double far_density = 0;  // far blocks read exactly, as a part, of all sparse rows
  double residual_max = 0;
};

struct PrefillSpeed {
  int32_t positions = 0;
  SparseSetting setting;
  double exact_seconds = 0;  // thread seconds, medians of the rounds
  double sparse_seconds = 0;
  double seal_part = 0;  // of sparse_seconds
  double fma_share = 0;  // exact attention's operations beside the peak; 0: none is known
  Spread speed;          // exact seconds / sparse seconds, of each round
  SparseQuality quality;
};

// Positions 0 ... `positions` - 1 of a captured KV head with float32 pages, in rounds of 512 rows
// as a server's prefill has them, sealing included: each round of rows exactly, then with each
// setting, all of it `rounds` times. One row a setting. kUnsupported: the layer stays exact.
Result<std::vector<PrefillSpeed>> MeasurePrefill(const CapturedAttention& data, int32_t positions,
                                                 std::span<const SparseSetting> settings,
                                                 int32_t rounds, const KernelTable& kernels);

// The power with which time grows: the exponent p of t ~ n^p through two points.
double GrowthExponent(double n_from, double seconds_from, double n_to, double seconds_to);

}  // namespace remontoir
