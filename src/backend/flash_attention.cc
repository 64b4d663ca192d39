// Checks, stores what isn't paged yet, and walks the items.
#include "backend/flash_attention.h"

#include <algorithm>
#include <string>

#include "backend/attention_check.h"
#include "base/check.h"

namespace remontoir {
namespace {

constexpr int32_t kThreadsMax = 1024;

class ItemsJob final : public TileJob {
 public:
  explicit ItemsJob(AttentionItems& items) : items_(items) {}
  int32_t BeginStep(int32_t step) override {
    return step == 0 ? items_.tiles() : items_.merge_tiles();
  }
  void RunTile(int32_t step, int32_t tile, int32_t worker) override {
    if (step == 0) {
      items_.RunTile(tile, worker);
    } else {
      items_.MergeTile(tile, worker);
    }
  }

 private:
  AttentionItems& items_;
};

int64_t PagesFor(int64_t keys) { return (keys + kKvPageTokens - 1) / kKvPageTokens; }

}  // namespace

FlashAttentionWorkspace::FlashAttentionWorkspace(int32_t threads, const KernelTable& kernels)
    : kernels_(kernels), pool_(threads) {
  REM_CHECK(threads >= 1 && threads <= kThreadsMax, "1 ... 1024 threads");
}

int64_t FlashAttentionWorkspace::bytes() const { return scratch_.bytes() + pages_.size_bytes(); }

Status FlashAttentionWorkspace::StorePages(const ContiguousKv& kv, AttentionBatch* batch) {
  const KvLayout& layout = *batch->layout;
  const KvLayerShape& shape = layout.layer(batch->layer);
  const int64_t keys_all = batch->cu_seqlens_k.back();
  const int64_t key_row = int64_t{shape.kv_heads} * shape.key_width;
  const int64_t value_row = int64_t{shape.kv_heads} * shape.value_width;
  if (static_cast<int64_t>(kv.keys.size()) != keys_all * key_row ||
      static_cast<int64_t>(kv.values.size()) != keys_all * value_row) {
    return InvalidArgument("contiguous keys and values: wanted " + std::to_string(keys_all) +
                           " rows of " + std::to_string(key_row) + " and of " +
                           std::to_string(value_row) + " values");
  }
  page_table_.clear();
  page_table_begin_.assign(1, 0);
  for (size_t s = 0; s + 1 < batch->cu_seqlens_k.size(); ++s) {
    const int64_t pages = PagesFor(batch->cu_seqlens_k[s + 1] - batch->cu_seqlens_k[s]);
    for (int64_t p = 0; p < pages; ++p) {
      page_table_.push_back(KvPageId(static_cast<int32_t>(page_table_.size())));
    }
    page_table_begin_.push_back(static_cast<int32_t>(page_table_.size()));
  }
  const auto page_count = static_cast<int32_t>(page_table_.size());
  const int64_t bytes = page_count * layout.page_bytes();
  if (pages_.size_bytes() < bytes) {
    REM_ASSIGN_OR_RETURN(pages_, MemoryRegion::Take(bytes, "keys and values of a batch"));
  }
  batch->kv_pages = {pages_.data(), layout.page_bytes()};
  batch->page_count = page_count;
  batch->page_table = page_table_;
  batch->page_table_begin = page_table_begin_;
  pool_.ParallelFor(page_count, [&](int32_t page) {
    const auto after = std::upper_bound(page_table_begin_.begin(), page_table_begin_.end(), page);
    const auto s = static_cast<size_t>(after - page_table_begin_.begin()) - 1;
    const int64_t first =
        batch->cu_seqlens_k[s] + int64_t{page - page_table_begin_[s]} * kKvPageTokens;
    const int64_t end = std::min(first + kKvPageTokens, batch->cu_seqlens_k[s + 1]);
    std::byte* at = batch->kv_pages.Page(KvPageId(page));
    for (int64_t key = first; key < end; ++key) {
      const auto slot = static_cast<int>(key - first);
      for (int head = 0; head < shape.kv_heads; ++head) {
        kernels_.store_key(kv.keys.data() + key * key_row + head * shape.key_width, shape.key_width,
                           shape.type, slot, at + layout.key_offset(batch->layer, head));
        kernels_.store_value(kv.values.data() + key * value_row + head * shape.value_width,
                             shape.value_width, shape.type, slot,
                             at + layout.value_offset(batch->layer, head));
      }
    }
  });
  return Status::Ok();
}

Status RunFlashAttention(const AttentionBatch& batch, const ContiguousKv* kv,
                         FlashAttentionWorkspace* workspace) {
  FlashAttentionWorkspace& work = *workspace;
  REM_RETURN_IF_ERROR(CheckAttentionBatch(batch, kv == nullptr, &work.seen_));
  const KvLayerShape& shape = batch.layout->layer(batch.layer);
  if (work.kernels_.attention_partial[static_cast<size_t>(shape.type)] == nullptr) {
    return Unsupported("KV element type " + std::string(Info(shape.type).name));
  }
  AttentionBatch paged = batch;
  if (kv != nullptr) REM_RETURN_IF_ERROR(work.StorePages(*kv, &paged));
  const TileSchedule& schedule = *batch.schedule;
  work.plan_.Reserve(static_cast<size_t>(schedule.group_count()), PartialPlan::Count(schedule));
  work.plan_.Cut(schedule);
  const int64_t heads_per_kv = batch.heads / shape.kv_heads;
  work.scratch_.ReserveWorkers(work.pool_.size(), kBundleGroups * kRowGroupPositions * heads_per_kv,
                               shape.value_width);
  // Few items and long lists are split: room for what the split may be of.
  const int64_t groups_max = kItemsPerWorker * work.pool_.size();
  if (schedule.group_count() < groups_max) {
    work.scratch_.ReserveSplit(work.plan_.slot(work.plan_.partial_count()), batch.heads,
                               shape.value_width);
  }
  AttentionItems items(work.kernels_, work.pool_.size());
  items.Begin(paged, work.plan_, &work.scratch_);
  ItemsJob job(items);
  work.pool_.Run(job, 2);
  return Status::Ok();
}

// NOLINTBEGIN(readability-identifier-naming)
Status flash_attn_varlen_fwd_with_sparsity_mask(const AttentionBatch& batch,
                                                FlashAttentionWorkspace* workspace) {
  return RunFlashAttention(batch, nullptr, workspace);
}

Status flash_attn_varlen_fwd_with_sparsity_mask(const AttentionBatch& batch, const ContiguousKv& kv,
                                                FlashAttentionWorkspace* workspace) {
  return RunFlashAttention(batch, &kv, workspace);
}
// NOLINTEND(readability-identifier-naming)

}  // namespace remontoir
