// How fast exact attention is beside the processor's peak, and how much of what a mask saves is
// saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_statistics.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"

namespace remontoir {

// Full lists, beside the peak of float32 multiply-adds that was timed in turns with it.
struct ExactSpeed {
  DType type = DType::kF32;  // of keys and values
  int32_t width = 0;
  double gflops = 0;
  double peak_gflops = 0;
  Spread fma_ratio;
};

// Lists of a random block mask that keeps the diagonal.
struct MaskedSpeed {
  DType type = DType::kF32;
  int32_t width = 0;
  int32_t keys_per_block = 0;
  int32_t positions_per_block = 0;
  // What the mask keeps of the tiles (a row group and a block of keys) that causality leaves: those
  // at the diagonal are tiles like others, though half of their pairs are of keys to come.
  double density = 0;
  Spread effective;  // density * dense seconds / masked seconds
  // The same with (query, key) pairs in place of tiles.
  double pair_density = 0;
  Spread effective_of_pairs;
};

struct MaskedReport {
  int32_t keys = 0;
  int32_t rows = 0;
  int32_t heads = 0;  // that share the keys
  std::vector<ExactSpeed> exact;
  std::vector<MaskedSpeed> masked;

  // The worst of float32 pages.
  double fma_ratio() const;
  // The worst of blocks of so many keys, at least `from` and at most `to`, that more than one row
  // group shares; null: none measured.
  const MaskedSpeed* Worst(int32_t from, int32_t to) const;
  // The worst of lists of one row group each.
  const MaskedSpeed* WorstOfRowGroups() const;
};

// A prefill of the captured tokens (at most 8,192), of which the last 128 rows of each 1,024 are
// computed, for the query heads of one KV head; one thread, keys and values in pages of float32 and
// float16, heads of 64 and 128 values (neighbouring heads joined, or parts of one). Everything is
// timed in thread seconds, in turns, `rounds` times; medians of the rounds' ratios.
Result<MaskedReport> MeasureMasked(const CapturedAttention& data, const KernelTable& kernels,
                                   int32_t rounds);

}  // namespace remontoir
