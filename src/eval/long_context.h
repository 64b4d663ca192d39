// What sparse attention costs a model in quality: one text read exactly and sparsely, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "eval/layer_errors.h"
#include "eval/prediction_meter.h"
#include "model/model_runner.h"

namespace remontoir {

// Positions at which layers are looked at, at most.
inline constexpr int32_t kLayerPositionsMax = 512;

struct LongContextOptions {
  int32_t scored_from = 0;  // the first position whose prediction counts
  // Where tokens stop being computed in groups and come one by one, as generated ones do; at least
  // the text's length: nowhere.
  int32_t decode_from = INT32_MAX;
  // Whether the tokens before decode_from are read exactly for both: then what is compared is what
  // the sparse mode does to an answer, not what it did to the prompt.
  bool exact_prompt = false;
  // The kernels that layers are measured with; null: they aren't.
  const KernelTable* layer_kernels = nullptr;
  // The same model in float32, with pages for the text; null: rounding isn't told apart.
  ModelRunner* float32 = nullptr;
};

// Of the predictions at positions scored_from ... n - 2.
struct LongContextReport {
  PredictionDistance sparse;  // from the exact predictions of the same runner
  double density = 0;         // chosen far blocks, as a part, over all sparse rows
  double residual_max = 0;
  // From float32's exact predictions: the runner's exact ones, and its sparse ones.
  struct Rounding {
    PredictionDistance exact;
    PredictionDistance sparse;
  };
  std::optional<Rounding> rounding;
  // Every layer that may be sparse, at positions among the scored ones that are.
  std::vector<LayerError> layers;
};

// Called with the tokens done so far.
using LongContextProgress = std::function<void(int32_t done)>;

// The runner is prepared for sparse attention with segments for one text of this length, and with
// pages for two; nobody else uses them meanwhile.
LongContextReport CompareLongContext(ModelRunner& runner, std::span<const int32_t> tokens,
                                     const LongContextOptions& options,
                                     const LongContextProgress& progress);

}  // namespace remontoir
