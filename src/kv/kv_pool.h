// Accounts for KV pages and sealed segments: which are free, which belong to a lease, which are
// published for all. The backend owns the memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/prefix_cache.h"
#include "tensor/kv_layout.h"
#include "tensor/sealed_layout.h"

namespace remontoir {

inline constexpr int32_t PagesFor(int64_t tokens) {
  return static_cast<int32_t>((tokens + kKvPageTokens - 1) / kKvPageTokens);
}

enum class KvPageState : uint8_t {
  kFree,
  kLeased,     // one lease's own: it may be written
  kPublished,  // never written again; leases share it by reference
};

struct KvStats {
  int32_t pages_total = 0;
  // These four make up pages_total.
  int32_t pages_free = 0;
  int32_t pages_leased = 0;  // private to leases
  int32_t pages_shared = 0;  // published, and held by at least one lease
  int32_t pages_cached = 0;  // published, and nobody's: given to who needs room
  // Since the pool was made.
  int64_t evictions = 0;
  int64_t hits = 0;    // reservations that looked up and took at least one cached token
  int64_t misses = 0;  // reservations that looked up and took none
  int64_t tokens_matched = 0;
  int64_t tail_copies = 0;

  int32_t segments_total = 0;
  // These three make up segments_total.
  int32_t segments_free = 0;
  int32_t segments_leased = 0;   // private to leases
  int32_t segments_kept = 0;     // with a published page
  int64_t segments_matched = 0;  // since the pool was made: that leases found with their pages
};

// Of a match's pages: sealed segments that are kept with them.
struct KeptSegments {
  int32_t count = 0;  // of the first segments, one after the other
  int32_t unreferenced =
      0;  // whose pages nobody holds: reserving takes them from what is available
};

// One thread. Takes its storage when made and none later.
class KvPool {
 public:
  // Pages 0 ... page_count - 1, all free, at most kKvPagesMax. hash_seed: see PrefixCache.
  // Segments 0 ... segment_count - 1, all free.
  explicit KvPool(int32_t page_count, uint64_t hash_seed = 0, int32_t segment_count = 0);

  int32_t page_count() const { return static_cast<int32_t>(states_.size()); }
  int32_t pages_free() const { return static_cast<int32_t>(free_.size()); }
  // What leases could still take: free pages, and cached ones that would be evicted.
  int32_t pages_available() const { return pages_free() + cache_.pages_unreferenced(); }
  KvPageState state(KvPageId page) const;  // of a page of this pool
  const PrefixCache& prefix_cache() const { return cache_; }
  KvStats stats() const;

  // What of pages_available() a reservation of `pages` takes that begins with `match`: a matched
  // page that another lease holds costs nothing, every other page costs one. It succeeds exactly if
  // that many are available. Another lease's reservation never makes it more, though the match has
  // to be looked up again. While a lease's tail isn't copied, its source may be unavailable too.
  int32_t PagesNeeded(const PrefixMatch& match, int32_t pages) const;
  bool CanReserve(const PrefixMatch& match, int32_t pages) const {
    return PagesNeeded(match, pages) <= pages_available();
  }

  // Sealed segments that leases could still take: free ones, and those that are kept with pages
  // that nobody holds, least recently used first.
  int32_t segments_available() const;
  KeptSegments KeptWith(const PrefixMatch& match) const;

  // Frees all cached pages; what leases hold stays, and stays published.
  void ClearCache();

 private:
  friend class KvLease;
  // A page for a lease: a free one, else the least recently used cached one; kNoKvPage: neither.
  KvPageId TakePage();
  void ReturnPage(KvPageId page);
  // A lease's page goes into the tree, referenced, unless an equal one is there: then that one is.
  // Returns the page that is in the tree.
  KvPageId PublishFull(const PrefixKey& key, KvPageId parent, KvPageId page,
                       std::span<const int32_t> tokens);
  // Likewise for a page with fewer tokens, unless a page there begins with them: kNoKvPage then.
  KvPageId PublishTail(const PrefixKey& key, KvPageId parent, KvPageId page,
                       std::span<const int32_t> tokens);
  void Insert(const PrefixKey& key, KvPageId parent, KvPageId page,
              std::span<const int32_t> tokens);
  void FreePage(KvPageId page, KvPageState state_before);

  SealedSegmentId KeptWith(KvPageId page) const {
    return segment_of_page_[static_cast<size_t>(Index(page))];
  }
  void Keep(KvPageId page, SealedSegmentId segment);
  void LetGo(KvPageId page);  // of what is kept with it, if anything
  // So many free ones or, without changing anything, false.
  bool MakeSegmentsFree(int32_t count);

  std::vector<KvPageId> free_;  // a stack: the page returned last is the warmest
  std::vector<KvPageState> states_;
  PrefixCache cache_;
  // A segment is kept with its last page. Of a chain of pages those of the first segments are: a
  // page's go before those of the pages above it.
  std::vector<SealedSegmentId> segments_free_;
  std::vector<SealedSegmentId> segment_of_page_;
  std::vector<KvPageId> page_of_segment_;
  KvStats counts_;  // its counters since the start; pages are counted when asked for
};

// The tokens that a lease found in another page: to be copied by the caller.
struct TailCopy {
  KvPageId source = kNoKvPage;
  KvPageId target = kNoKvPage;
  int32_t tokens = 0;  // 0: nothing to copy
};

// The pages of one sequence: shared ones, then its own. Its lists have room for the longest
// sequence from the start, so that taking and returning pages allocates nothing. What it holds is
// never taken back, and the pages in its list stay where they are until it is released.
class KvLease {
 public:
  // The pool must outlive the lease. It never holds more than pages_max pages, and segments for
  // them.
  KvLease(KvPool& pool, int32_t pages_max);
  ~KvLease() { Release(); }
  KvLease(const KvLease&) = delete;
  KvLease& operator=(const KvLease&) = delete;

  // Takes `pages` for a lease that holds none, outside the prefix cache. False, and none taken,
  // when fewer are available.
  bool Reserve(int32_t pages) { return Reserve(PrefixMatch{}, pages); }
  // Likewise, of which the matched pages are shared. `match` is the pool's, of this moment, and
  // leaves at least one page to the lease itself. All of it or, without changing anything, false,
  // as CanReserve says. Where there is no page to spare beside the reservation the tail's source
  // may have to go: then there is no tail.
  bool Reserve(const PrefixMatch& match, int32_t pages);

  // The copy to make before the first round; its source stays until TailCopied or Release.
  const TailCopy& tail() const { return tail_; }
  void TailCopied();  // nothing where there was no tail

  // One page more. False when none is available or pages_max are held.
  bool Grow();

  // tokens: all that the sequence has computed, from position 0. The pages that they fill become
  // visible to others and are never written again. Where an equal page is there already the lease
  // keeps its own as well. Only for a lease reserved with a match, after TailCopied.
  void Publish(std::span<const int32_t> tokens);
  // Likewise; then the last page, which they fill in part, becomes visible with these tokens, and
  // all pages are given back.
  void PublishAndRelease(std::span<const int32_t> tokens);
  // Gives all pages back; an empty lease stays empty. What was published stays cached.
  void Release();

  // Sealed segments for the sequence's first positions, `count` in all: those that are kept with
  // the pages that it shares, then its own. False, and none taken, when fewer are available. After
  // TailCopied.
  bool TakeSegments(int32_t count);
  // Its first `sealed` segments are sealed: those whose pages are published stay with them, for all
  // who find the pages.
  void KeepSegments(int32_t sealed);
  // In the order of the sequence's positions; those may change places with equal ones.
  std::span<const SealedSegmentId> segments() const { return segments_; }
  // The first ones, that came with its pages or stay with them: they are sealed.
  int32_t segments_kept() const { return static_cast<int32_t>(segments_kept_); }

  // In the order of the sequence's positions.
  std::span<const KvPageId> pages() const { return pages_; }
  int64_t tokens_max() const { return static_cast<int64_t>(pages_.size()) * kKvPageTokens; }
  // Found at the reservation: positions that needn't be computed, the tail's included.
  int32_t tokens_matched() const { return tokens_matched_; }
  // The first pages that are published or have a published twin.
  int32_t pages_published() const { return static_cast<int32_t>(nodes_.size()); }

 private:
  // Of its published pages: how many first segments are kept with them.
  size_t SegmentsFound() const;
  KvPageId parent() const { return nodes_.empty() ? kNoKvPage : nodes_.back(); }

  KvPool& pool_;
  const size_t pages_max_;
  std::vector<KvPageId> pages_;
  // The published pages that the lease references: the first ones, or their twins. A chain of the
  // tree from its start.
  std::vector<KvPageId> nodes_;
  std::vector<SealedSegmentId> segments_;
  size_t segments_kept_ = 0;
  PrefixKey key_;
  bool publishes_ = false;
  int32_t tokens_matched_ = 0;
  TailCopy tail_;  // its source is referenced while there are tokens to copy
};

}  // namespace remontoir
