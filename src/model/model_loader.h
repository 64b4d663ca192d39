// Moves a checked model into a backend and hands out the runner.
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"
#include "formats/model_file.h"
#include "model/model_info.h"
#include "model/model_runner.h"
#include "model/rope.h"

namespace remontoir {

struct LoadOptions {
  int32_t context_max = 0;  // positions a sequence may have; 0: as trained
  RopeAdjustment rope;
  DType kv_type = DType::kF16;
  int32_t round_tokens_max = 512;
  int32_t sequences_max = 8;
  KvMemoryOptions kv_memory;
  SparseAttentionOptions sparse = {};
};

// Bytes gone through so far and in all: of matrices (twice each where a cache of packed weights is
// asked), then of the KV arena as it is faulted in. Called from the loading thread.
using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// Bytes of a page of this model's keys and values, before anything is loaded.
KvLayout MakeKvLayout(const ModelShape& shape, DType kv_type);

// The bounds of a round that these options give.
RoundLimits MakeRoundLimits(const ModelShape& shape, const LoadOptions& options);

// `file` and `info` must stay as long as the runner (the embedding is read from the mapped file).
Result<std::unique_ptr<ModelRunner>> LoadModel(const ModelFile& file, const ModelInfo& info,
                                               std::unique_ptr<Backend> backend,
                                               const LoadOptions& options,
                                               const LoadProgress& progress);

}  // namespace remontoir
