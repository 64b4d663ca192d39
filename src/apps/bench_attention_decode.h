// Single rows against long contexts, sparse beside exact, with cold caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/bench_attention_sparse.h"
#include "apps/bench_statistics.h"
#include "backend/memory_region.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"

namespace remontoir {

// Memory to walk through, so that caches hold nothing else.
class ColdCaches {
 public:
  // More than caches hold; a multiple of 128.
  static Result<ColdCaches> Make(int64_t bytes = int64_t{512} << 20);

  // Reads all of it; bytes a thread second.
  double Walk();
  uint64_t sum() const { return sum_; }  // of all that was read, so that it is

 private:
  std::span<uint64_t> numbers() const;

  MemoryRegion memory_;
  uint64_t sum_ = 0;
};

// One layer's.
struct DecodeSpeed {
  int32_t layer = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  DType type = DType::kF32;
  int32_t positions = 0;  // of the context, the row's own included
  SparseSetting setting;
  double exact_seconds = 0;  // thread seconds of a row, medians
  double sparse_seconds = 0;
  Spread speed;
  double exact_read_share = 0;   // bytes of keys and values a second, beside reading alone
  double sparse_read_share = 0;  // likewise, of what the sparse row reads
  double far_density = 0;
  double rel_l2 = 0;        // mean over rows and heads
  double seal_seconds = 0;  // of a key of one KV head, not in sparse_seconds
};

// `rounds` rows at the end of the context, one at a time: before each, caches are emptied and all
// layers walked through, exactly, and again sparsely, as a step of a whole model meets them. The
// layers are of one model.
Result<std::vector<DecodeSpeed>> MeasureDecode(std::span<const CapturedAttention* const> layers,
                                               int32_t positions, DType type,
                                               const SparseSetting& setting, int32_t rounds,
                                               ColdCaches& caches, const KernelTable& kernels);

}  // namespace remontoir
