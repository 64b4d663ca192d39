// Accounts for KV pages: which are free and which belong to a lease. The backend owns the memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/kv_layout.h"

namespace remontoir {

inline constexpr int32_t PagesFor(int64_t tokens) {
  return static_cast<int32_t>((tokens + kKvPageTokens - 1) / kKvPageTokens);
}

// One thread. Takes its storage when made and none later.
class KvPool {
 public:
  // Pages 0 ... page_count - 1, all free.
  explicit KvPool(int32_t page_count);

  int32_t page_count() const { return static_cast<int32_t>(leased_.size()); }
  int32_t pages_free() const { return static_cast<int32_t>(free_.size()); }

 private:
  friend class KvLease;
  // Appends `count` pages to `pages`, or returns false and takes none.
  bool TryTake(int32_t count, std::vector<KvPageId>& pages);
  void Return(std::span<const KvPageId> pages);

  std::vector<KvPageId> free_;  // a stack: the page returned last is the warmest
  std::vector<uint8_t> leased_;
};

// The pages of one sequence. Its list has room for the longest sequence from the start, so that
// taking and returning pages allocates nothing. What it holds is never taken back.
class KvLease {
 public:
  // The pool must outlive the lease. It never holds more than pages_max pages.
  KvLease(KvPool& pool, int32_t pages_max);
  ~KvLease() { Release(); }
  KvLease(const KvLease&) = delete;
  KvLease& operator=(const KvLease&) = delete;

  // Takes `pages` for a lease that holds none. False, and none taken, when fewer are free.
  bool Reserve(int32_t pages);
  // One page more. False when none is free or pages_max are held.
  bool Grow();
  // Gives all pages back; an empty lease stays empty.
  void Release();

  // In the order of the sequence's positions.
  std::span<const KvPageId> pages() const { return pages_; }
  int64_t tokens_max() const { return static_cast<int64_t>(pages_.size()) * kKvPageTokens; }

 private:
  KvPool& pool_;
  const size_t pages_max_;
  std::vector<KvPageId> pages_;
};

}  // namespace remontoir
