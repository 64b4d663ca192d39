// Exact attention along a compiled sparsity mask, for callers without an engine: the code, and the
// bits, of the serving path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/attention_items.h"
#include "backend/memory_region.h"
#include "base/status.h"
#include "base/worker_pool.h"
#include "kernels/kernel_table.h"

namespace remontoir {

// Keys and values in plain rows, sequence by sequence as AttentionBatch::cu_seqlens_k says,
// rotated.
struct ContiguousKv {
  std::span<const float> keys;    // [keys of all sequences][kv_heads * key_width]
  std::span<const float> values;  // [keys of all sequences][kv_heads * value_width]
};

// Threads and memory of the calls below. It grows to the largest batch that it has seen; from then
// on a call allocates nothing. One call at a time.
class FlashAttentionWorkspace {
 public:
  // `threads` 1 ... 1024, the calling one included.
  explicit FlashAttentionWorkspace(int32_t threads = 1, const KernelTable& kernels = BestKernels());

  int64_t bytes() const;  // taken so far, without the lists' own

 private:
  friend Status RunFlashAttention(const AttentionBatch& batch, const ContiguousKv* kv,
                                  FlashAttentionWorkspace* workspace);
  // Stores rows into pages of the layout's element type, as the serving path does, and puts these
  // pages into the batch.
  Status StorePages(const ContiguousKv& kv, AttentionBatch* batch);

  const KernelTable& kernels_;
  WorkerPool pool_;
  PartialPlan plan_;
  AttentionScratch scratch_;
  MemoryRegion pages_;
  std::vector<KvPageId> page_table_;
  std::vector<int32_t> page_table_begin_;
  std::vector<uint8_t> seen_;  // rows by list head
};

// out = softmax(cap(q k^T * scale)) v over the keys that causality, window, documents and the
// schedule's lists show a row, and lse where it is asked for: FlashAttention's varlen forward,
// where a tile that isn't listed is never visited and only tiles at the edge of what a row sees
// evaluate an element mask. A row without keys gets zeros, and minus infinity for lse.
//
// Shapes are AttentionBatch's, lists TileScheduleBuilder's or the caller's own; the schedule's
// blocks are 16, 32, 64 ... 1024 keys, its heads 1, the KV heads or the query heads. In float32
// everything but what the KV type has rounded. The result of a row depends on its query, its keys,
// the key type and its list alone, not on the batch, the threads or how rows were grouped.
//
// Errors: kInvalidArgument names the member of the batch that is wrong, kUnsupported a KV type that
// has no kernel, kResourceExhausted memory that the system refuses. Nothing is written then.
//
// Not in our style of names: callers know FlashAttention's.
// NOLINTBEGIN(readability-identifier-naming)
Status flash_attn_varlen_fwd_with_sparsity_mask(const AttentionBatch& batch,
                                                FlashAttentionWorkspace* workspace);
// Of contiguous keys and values: kv_pages and page table of the batch are not read, its layout says
// in which element type keys and values are kept on the way (kF32: as they are).
Status flash_attn_varlen_fwd_with_sparsity_mask(const AttentionBatch& batch, const ContiguousKv& kv,
                                                FlashAttentionWorkspace* workspace);
// NOLINTEND(readability-identifier-naming)

}  // namespace remontoir
