// What sparse attention costs a model in quality: one text read exactly and sparsely, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "backend/backend.h"
#include "model/model_runner.h"

namespace remontoir {

struct LongContextOptions {
  int32_t scored_from = 0;  // the first position whose prediction counts
  // Where tokens stop being computed in groups and come one by one, as generated ones do; at least
  // the text's length: nowhere.
  int32_t decode_from = INT32_MAX;
};

// Of the predictions at positions scored_from ... n - 2.
struct LongContextReport {
  int64_t predictions = 0;
  double perplexity_exact = 0;
  double perplexity_sparse = 0;
  // Kullback-Leibler divergence of the sparse distribution from the exact one, in nats.
  double kl_mean = 0;
  double kl_p99 = 0;
  double top1_agreement = 0;  // predictions with the same most probable token, as a part
  double density = 0;         // chosen far blocks, as a part, over all sparse rows
  double residual_max = 0;
};

// Called with the tokens done so far.
using LongContextProgress = std::function<void(int32_t done)>;

// The runner is prepared for sparse attention with segments for one text of this length, and with
// pages for two; nobody else uses them meanwhile.
LongContextReport CompareLongContext(ModelRunner& runner, std::span<const int32_t> tokens,
                                     const LongContextOptions& options,
                                     const LongContextProgress& progress);

}  // namespace remontoir
