// The free list behind leases.
#include "kv/kv_pool.h"

#include "base/check.h"

namespace remontoir {

KvPool::KvPool(int32_t page_count) {
  REM_CHECK(page_count >= 0, "a pool can't have a negative number of pages");
  leased_.resize(page_count);
  free_.reserve(page_count);
  for (int32_t page = page_count - 1; page >= 0; --page) free_.push_back(KvPageId(page));
}

bool KvPool::TryTake(int32_t count, std::vector<KvPageId>& pages) {
  if (count > pages_free()) return false;
  for (int32_t i = 0; i < count; ++i) {
    const KvPageId page = free_.back();
    free_.pop_back();
    REM_CHECK(!leased_[Index(page)], "a free page is leased");
    leased_[Index(page)] = 1;
    pages.push_back(page);
  }
  return true;
}

void KvPool::Return(std::span<const KvPageId> pages) {
  // Last first: the next lease gets them in the same order.
  for (size_t i = pages.size(); i-- > 0;) {
    REM_CHECK(leased_[Index(pages[i])], "a returned page wasn't leased");
    leased_[Index(pages[i])] = 0;
    free_.push_back(pages[i]);
  }
}

KvLease::KvLease(KvPool& pool, int32_t pages_max) : pool_(pool), pages_max_(pages_max) {
  pages_.reserve(pages_max);
}

bool KvLease::Reserve(int32_t pages) {
  REM_CHECK(pages_.empty(), "a lease reserves once");
  REM_CHECK(pages >= 0 && static_cast<size_t>(pages) <= pages_max_,
            "a reservation is longer than the longest sequence");
  return pool_.TryTake(pages, pages_);
}

bool KvLease::Grow() { return pages_.size() < pages_max_ && pool_.TryTake(1, pages_); }

void KvLease::Release() {
  pool_.Return(pages_);
  pages_.clear();
}

}  // namespace remontoir
