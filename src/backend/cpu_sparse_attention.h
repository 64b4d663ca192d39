// Sparse attention in a round: which rows, sealing what is due, and what was read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu_step.h"
#include "backend/seal_segment.h"
#include "backend/sparse_attention.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

// The layers that may be attended to sparsely, and their part of a sealed segment.
SealedLayout SealedLayoutOf(const Program& program, const KvLayout& layout, int32_t block_keys);

// What all layers share.
class SparseState {
 public:
  // After the program's layers are known. Allocates; rounds don't.
  void Prepare(const Program& program, const KvLayout& layout, const RoundLimits& limits,
               int32_t workers);
  bool on() const { return options_.engage_at > 0 && sealed_.segment_bytes() > 0; }
  const SparseAttentionOptions& options() const { return options_; }
  const SealedLayout& sealed() const { return sealed_; }
  int64_t bytes() const;

  // Before each round.
  void Begin(int32_t sequences);
  void Add(int32_t sequence, const SparseCounts& counts, float residual_max);
  SparseReadings ReadingsOf(int32_t sequence) const;

  struct Worker {
    SparseScratch attention;
    SealScratch seal;
    std::vector<const std::byte*> segments;
    std::vector<KeyBlock> local_blocks;
    std::vector<float> residuals;
    // Of one head's rows.
    std::vector<AttentionRow> rows;
    std::vector<SoftmaxState> states;
    std::vector<float> sums;
  };
  Worker& worker(int32_t index) { return workers_[static_cast<size_t>(index)]; }

 private:
  struct Totals {
    std::atomic<int64_t> far_blocks{0};
    std::atomic<int64_t> chosen_blocks{0};
    std::atomic<float> residual_max{0};
  };
  SparseAttentionOptions options_;
  SealedLayout sealed_;
  std::vector<Worker> workers_;
  std::unique_ptr<Totals[]> totals_;  // [sequences]
};

// Whether a row at this position is sparse in this round.
bool IsSparseRow(const RoundState& round, const SparseState& state, int32_t sequence,
                 int32_t position);

// Attends the rows of one group, which are all sparse, to a KV head.
struct SparseGroupWork {
  int32_t sequence;
  int32_t first_position;
  int32_t last_position;
  int32_t kv_head;
  const AttentionRow* rows;
  int row_count;
  SoftmaxState* states;
  float* sums;
};
void AttendSparseGroup(const RoundState& round, const KvLayout& layout, const AttentionOp& op,
                       SparseState& state, const SparseGroupWork& work, int32_t worker);

// Seals what earlier rounds left of segments whose keys they computed, in all layers, a (seal,
// head) a tile. Asks for nothing of the round but its inputs: it may be the only step.
std::unique_ptr<Step> MakeLateSealStep(const RoundState& round, const KvLayout& layout,
                                       SparseState& state);

// Seals in a layer the segments that end with the round's own keys, a (segment, head) a tile: after
// the keys are in their pages and before they are attended to.
std::unique_ptr<Step> MakeSealStep(const RoundState& round, const KvLayout& layout, int32_t layer,
                                   SparseState& state);

}  // namespace remontoir
