// The free list, the states of pages, and the leases that hold them.
#include "kv/kv_pool.h"

#include <algorithm>

#include "base/check.h"

namespace remontoir {

namespace {

constexpr SealedSegmentId kNoSegment{-1};

// The place of a segment's last page among those of a sequence.
constexpr int32_t LastPageOf(int32_t segment) { return SegmentEnd(segment) / kKvPageTokens - 1; }

}  // namespace

KvPool::KvPool(int32_t page_count, uint64_t hash_seed, int32_t segment_count)
    : cache_(page_count, hash_seed) {
  REM_CHECK(segment_count >= 0, "a number of segments");
  segment_of_page_.assign(static_cast<size_t>(page_count), kNoSegment);
  page_of_segment_.assign(static_cast<size_t>(segment_count), kNoKvPage);
  for (int32_t i = segment_count - 1; i >= 0; --i) segments_free_.push_back(SealedSegmentId(i));
  states_.resize(static_cast<size_t>(page_count));
  free_.reserve(static_cast<size_t>(page_count));
  for (int32_t page = page_count - 1; page >= 0; --page) free_.push_back(KvPageId(page));
}

KvPageState KvPool::state(KvPageId page) const {
  REM_CHECK(Index(page) >= 0 && Index(page) < page_count(), "no page of this pool");
  return states_[static_cast<size_t>(Index(page))];
}

KvStats KvPool::stats() const {
  KvStats stats = counts_;
  stats.pages_total = page_count();
  stats.pages_free = pages_free();
  stats.pages_cached = cache_.pages_unreferenced();
  stats.pages_shared = cache_.pages_published() - stats.pages_cached;
  stats.pages_leased = stats.pages_total - stats.pages_free - cache_.pages_published();
  stats.segments_total = static_cast<int32_t>(page_of_segment_.size());
  stats.segments_free = static_cast<int32_t>(segments_free_.size());
  for (const KvPageId page : page_of_segment_) stats.segments_kept += page != kNoKvPage ? 1 : 0;
  stats.segments_leased = stats.segments_total - stats.segments_free - stats.segments_kept;
  return stats;
}

int32_t KvPool::segments_available() const {
  auto available = static_cast<int32_t>(segments_free_.size());
  for (const KvPageId page : page_of_segment_) {
    if (page != kNoKvPage && cache_.references(page) == 0) ++available;
  }
  return available;
}

KeptSegments KvPool::KeptWith(const PrefixMatch& match) const {
  KeptSegments kept;
  if (page_of_segment_.empty()) return kept;
  KvPageId page = match.last_page;
  for (int32_t i = match.page_count - 1; i > LastPageOf(-1); --i, page = cache_.parent(page)) {
    if (i % kSegmentPages != LastPageOf(-1)) continue;
    const bool has = KeptWith(page) != kNoSegment;
    kept.count = has ? kept.count + 1 : 0;
    if (has && cache_.references(page) == 0) ++kept.unreferenced;
  }
  return kept;
}

void KvPool::Keep(KvPageId page, SealedSegmentId segment) {
  REM_CHECK(KeptWith(page) == kNoSegment && cache_.references(page) > 0,
            "a segment is kept with a published page of the lease");
  segment_of_page_[static_cast<size_t>(Index(page))] = segment;
  page_of_segment_[static_cast<size_t>(Index(segment))] = page;
}

void KvPool::LetGo(KvPageId page) {
  SealedSegmentId& segment = segment_of_page_[static_cast<size_t>(Index(page))];
  if (segment == kNoSegment) return;
  page_of_segment_[static_cast<size_t>(Index(segment))] = kNoKvPage;
  segments_free_.push_back(segment);
  segment = kNoSegment;
}

bool KvPool::MakeSegmentsFree(int32_t count) {
  const auto enough = [&] { return std::ssize(segments_free_) >= count; };
  if (enough()) return true;
  if (segments_available() < count) return false;
  for (KvPageId page = cache_.oldest(); !enough(); page = cache_.newer(page)) {
    REM_CHECK(page != kNoKvPage, "available segments weren't");
    LetGo(page);
  }
  return true;
}

int32_t KvPool::PagesNeeded(const PrefixMatch& match, int32_t pages) const {
  if (match.page_count == 0) return pages;
  REM_CHECK(match.removals == cache_.removals(), "a match from before a page left the cache");
  int32_t needed = pages;
  KvPageId page = match.last_page;
  for (int32_t i = 0; i < match.page_count; ++i) {
    if (cache_.references(page) > 0) --needed;
    page = cache_.parent(page);
  }
  return needed;
}

void KvPool::ClearCache() {
  for (KvPageId page = cache_.Evict(); page != kNoKvPage; page = cache_.Evict()) {
    FreePage(page, KvPageState::kPublished);
  }
}

KvPageId KvPool::TakePage() {
  KvPageId page = kNoKvPage;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
    REM_CHECK(state(page) == KvPageState::kFree, "a free page is held");
  } else {
    page = cache_.Evict();
    if (page == kNoKvPage) return page;
    REM_CHECK(state(page) == KvPageState::kPublished, "an evicted page wasn't published");
    LetGo(page);
    ++counts_.evictions;
  }
  states_[static_cast<size_t>(Index(page))] = KvPageState::kLeased;
  return page;
}

void KvPool::ReturnPage(KvPageId page) { FreePage(page, KvPageState::kLeased); }

void KvPool::FreePage(KvPageId page, KvPageState state_before) {
  REM_CHECK(state(page) == state_before, "a page is given back that wasn't held");
  LetGo(page);
  states_[static_cast<size_t>(Index(page))] = KvPageState::kFree;
  free_.push_back(page);
}

KvPageId KvPool::PublishFull(const PrefixKey& key, KvPageId parent, KvPageId page,
                             std::span<const int32_t> tokens) {
  const KvPageId twin = cache_.FindFull(key, parent, tokens);
  if (twin != kNoKvPage) {
    cache_.AddReference(twin);
    return twin;
  }
  Insert(key, parent, page, tokens);
  return page;
}

KvPageId KvPool::PublishTail(const PrefixKey& key, KvPageId parent, KvPageId page,
                             std::span<const int32_t> tokens) {
  const KvPageId covering = cache_.FindCovering(key, parent, tokens);
  if (covering != kNoKvPage) {
    // That was a use of it.
    cache_.AddReference(covering);
    cache_.DropReference(covering);
    return kNoKvPage;
  }
  Insert(key, parent, page, tokens);
  return page;
}

void KvPool::Insert(const PrefixKey& key, KvPageId parent, KvPageId page,
                    std::span<const int32_t> tokens) {
  REM_CHECK(state(page) == KvPageState::kLeased, "only a lease's own page can be published");
  cache_.Insert(key, parent, page, tokens);
  states_[static_cast<size_t>(Index(page))] = KvPageState::kPublished;
  for (KvPageId covered = cache_.TakeCoveredBy(page); covered != kNoKvPage;
       covered = cache_.TakeCoveredBy(page)) {
    FreePage(covered, KvPageState::kPublished);
  }
}

KvLease::KvLease(KvPool& pool, int32_t pages_max)
    : pool_(pool), pages_max_(static_cast<size_t>(pages_max)) {
  pages_.reserve(pages_max_);
  nodes_.reserve(pages_max_);
  segments_.reserve(pages_max_ / kSegmentPages + 1);
}

bool KvLease::Reserve(const PrefixMatch& match, int32_t pages) {
  REM_CHECK(pages_.empty(), "a lease reserves once");
  REM_CHECK(pages >= 0 && static_cast<size_t>(pages) <= pages_max_,
            "a reservation is longer than the longest sequence");
  REM_CHECK(match.tokens() == 0 || match.page_count < pages, "a match leaves no page to its lease");
  if (!pool_.CanReserve(match, pages)) return false;
  PrefixCache& cache = pool_.cache_;
  REM_CHECK(match.tokens() == 0 || match.removals == cache.removals(),
            "a match from before a page left the cache");

  nodes_.resize(static_cast<size_t>(match.page_count));
  KvPageId page = match.last_page;
  for (size_t i = nodes_.size(); i-- > 0; page = cache.parent(page)) {
    nodes_[i] = page;
    cache.AddReference(page);
  }
  pages_.assign(nodes_.begin(), nodes_.end());
  const int32_t own = pages - match.page_count;
  bool keeps_tail = match.tail_tokens > 0;
  if (keeps_tail) {
    const int32_t spare = pool_.pages_available() - own;
    keeps_tail = spare > 0 || cache.references(match.tail_source) > 0;
    if (keeps_tail) cache.AddReference(match.tail_source);
  }
  for (int32_t i = 0; i < own; ++i) {
    pages_.push_back(pool_.TakePage());
    REM_CHECK(pages_.back() != kNoKvPage, "available pages weren't");
  }
  if (keeps_tail) tail_ = {match.tail_source, pages_[nodes_.size()], match.tail_tokens};

  key_ = match.key;
  publishes_ = match.looked_up;
  tokens_matched_ = match.page_count * kKvPageTokens + tail_.tokens;
  if (match.looked_up) {
    ++(tokens_matched_ > 0 ? pool_.counts_.hits : pool_.counts_.misses);
    pool_.counts_.tokens_matched += tokens_matched_;
    pool_.counts_.tail_copies += keeps_tail ? 1 : 0;
  }
  return true;
}

void KvLease::TailCopied() {
  if (tail_.tokens > 0) pool_.cache_.DropReference(tail_.source);
  tail_ = {};
}

bool KvLease::Grow() {
  if (pages_.size() >= pages_max_) return false;
  const KvPageId page = pool_.TakePage();
  if (page == kNoKvPage) return false;
  pages_.push_back(page);
  return true;
}

size_t KvLease::SegmentsFound() const {
  size_t found = 0;
  while (true) {
    const auto last = static_cast<size_t>(LastPageOf(static_cast<int32_t>(found)));
    if (last >= nodes_.size() || pool_.KeptWith(nodes_[last]) == kNoSegment) return found;
    ++found;
  }
}

bool KvLease::TakeSegments(int32_t count) {
  REM_CHECK(tail_.tokens == 0, "segments before the tail was copied");
  const auto wanted = static_cast<size_t>(std::max(count, 0));
  REM_CHECK(wanted <= segments_.capacity(), "more segments than the longest sequence has");
  const size_t found = segments_.empty() ? std::min(SegmentsFound(), wanted) : 0;
  const size_t have = segments_.size() + found;
  if (wanted > have && !pool_.MakeSegmentsFree(static_cast<int32_t>(wanted - have))) return false;
  for (size_t i = 0; i < found; ++i) {
    const auto last = static_cast<size_t>(LastPageOf(static_cast<int32_t>(i)));
    segments_.push_back(pool_.KeptWith(nodes_[last]));
  }
  segments_kept_ += found;
  pool_.counts_.segments_matched += static_cast<int64_t>(found);
  while (segments_.size() < wanted) {
    segments_.push_back(pool_.segments_free_.back());
    pool_.segments_free_.pop_back();
  }
  return true;
}

void KvLease::KeepSegments(int32_t sealed) {
  const size_t sealed_count = std::min(static_cast<size_t>(std::max(sealed, 0)), segments_.size());
  for (; segments_kept_ < sealed_count; ++segments_kept_) {
    const auto last = static_cast<size_t>(LastPageOf(static_cast<int32_t>(segments_kept_)));
    if (last >= nodes_.size()) return;
    SealedSegmentId& segment = segments_[segments_kept_];
    const SealedSegmentId twin = pool_.KeptWith(nodes_[last]);
    if (twin == kNoSegment) {
      pool_.Keep(nodes_[last], segment);
    } else {
      pool_.segments_free_.push_back(segment);
      segment = twin;
    }
  }
}

void KvLease::Publish(std::span<const int32_t> tokens) {
  REM_CHECK(publishes_, "published without a key");
  REM_CHECK(tail_.tokens == 0, "published before the tail was copied");
  REM_CHECK(static_cast<int64_t>(tokens.size()) <= tokens_max(), "more tokens than room");
  const size_t full = tokens.size() / kKvPageTokens;
  while (nodes_.size() < full) {
    const size_t i = nodes_.size();
    nodes_.push_back(pool_.PublishFull(key_, parent(), pages_[i],
                                       tokens.subspan(i * kKvPageTokens, kKvPageTokens)));
  }
}

void KvLease::PublishAndRelease(std::span<const int32_t> tokens) {
  Publish(tokens);
  const std::span<const int32_t> rest =
      tokens.subspan(std::min(nodes_.size() * kKvPageTokens, tokens.size()));
  if (!rest.empty()) {
    const KvPageId page = pool_.PublishTail(key_, parent(), pages_[nodes_.size()], rest);
    if (page != kNoKvPage) nodes_.push_back(page);
  }
  Release();
}

void KvLease::Release() {
  TailCopied();
  // Last first: pages leave the cache before those above them, and the next lease gets them in the
  // same order.
  for (size_t i = pages_.size(); i-- > 0;) {
    const bool referenced = i < nodes_.size();
    if (referenced) pool_.cache_.DropReference(nodes_[i]);
    if (!referenced || nodes_[i] != pages_[i]) pool_.ReturnPage(pages_[i]);
  }
  for (size_t i = segments_kept_; i < segments_.size(); ++i) {
    pool_.segments_free_.push_back(segments_[i]);
  }
  segments_.clear();
  segments_kept_ = 0;
  pages_.clear();
  nodes_.clear();
  publishes_ = false;
  tokens_matched_ = 0;
}

}  // namespace remontoir
