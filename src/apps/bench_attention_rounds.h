// Attention of captured layers alone, in rounds on one thread: the steps that the CPU backend runs
// for a sequence, exactly or sparsely.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/attention_items.h"
#include "backend/backend.h"
#include "backend/cpu_attention.h"
#include "backend/cpu_sparse_attention.h"
#include "backend/memory_region.h"
#include "base/status.h"
#include "eval/attention_capture.h"
#include "kernels/kernel_table.h"
#include "tensor/kv_layout.h"

namespace remontoir {

// Keys and values of layers in pages 0, 1, ..., as a sequence of the engine has them.
class CapturedPages {
 public:
  // The first `tokens` of each layer, which are all there. The layers stay as long as the pages,
  // and have the same tokens. ResourceExhausted: no memory.
  static Result<CapturedPages> Store(std::span<const CapturedAttention* const> layers,
                                     int32_t tokens, DType type, const KernelTable& kernels);

  const KvLayout& layout() const { return layout_; }
  int32_t tokens() const { return tokens_; }
  const CapturedAttention& layer(int32_t layer) const {
    return *layers_[static_cast<size_t>(layer)];
  }
  KvPages pages() const { return {memory_.data(), layout_.page_bytes()}; }
  std::span<const KvPageId> page_table() const { return page_table_; }

 private:
  CapturedPages(std::vector<const CapturedAttention*> layers, int32_t tokens, KvLayout layout)
      : layers_(std::move(layers)), tokens_(tokens), layout_(std::move(layout)) {}
  void StoreLayer(int32_t layer, const KernelTable& kernels);

  std::vector<const CapturedAttention*> layers_;
  int32_t tokens_;
  KvLayout layout_;
  MemoryRegion memory_;
  std::vector<KvPageId> page_table_;
};

// Thread seconds of a round in one layer.
struct RoundSeconds {
  double seal = 0;
  double attend = 0;

  double all() const { return seal + attend; }
};

class AttentionRounds {
 public:
  // sparse.engage_at 0: every row is exact. Rounds have up to rows_max rows. `pages` stay as long
  // as the rounds. Takes all memory.
  static Result<std::unique_ptr<AttentionRounds>> Make(const CapturedPages& pages,
                                                       SparseAttentionOptions sparse,
                                                       int32_t rows_max,
                                                       const KernelTable& kernels);

  // Positions [first, first + rows) of a layer, after sealing what is due. Sparse ones are whole
  // groups of 8, or one alone.
  RoundSeconds Run(int32_t layer, int32_t first, int32_t rows);
  // Seals what is due before the row at `position`.
  double SealUntil(int32_t layer, int32_t position);
  // The next round finds nothing sealed.
  void Unseal();

  // Of the last Run: [rows][heads * value_width].
  std::span<const float> out() const { return {out_matrix_.values, out_count_}; }
  SparseReadings readings() const { return sparse_.ReadingsOf(0); }
  // Of the rows of one head, or of the heads of one row, that were attended to sparsely last.
  std::span<const float> residuals() { return sparse_.worker(0).residuals; }

 private:
  AttentionRounds(const CapturedPages& pages, int32_t rows_max, const KernelTable& kernels);
  Status Prepare(SparseAttentionOptions sparse);
  void CompileLayer(int32_t layer, const AttentionOp& op);
  void SetRound(int32_t first, int32_t rows);
  double RunSteps(std::span<Step* const> steps);

  struct Layer {
    std::unique_ptr<Step> seal;  // null: exact
    std::vector<std::unique_ptr<Step>> attend;
    int32_t sealed_segments = 0;
  };

  const CapturedPages& pages_;
  const RoundLimits limits_;
  RoundState round_;
  SparseState sparse_;
  WindowPlan plan_;
  AttentionScratch scratch_;
  MemoryRegion sealed_memory_;
  std::vector<Layer> layers_;
  MemoryRegion queries_, out_;
  size_t out_count_ = 0;
  ActivationMatrix queries_matrix_, out_matrix_;
  // What the round's inputs point to.
  std::vector<int32_t> cu_q_, page_table_begin_, sealed_table_begin_;
  std::vector<SealRange> seals_;
  std::vector<int64_t> cu_k_;
  std::vector<SealedSegmentId> sealed_table_;
};

}  // namespace remontoir
