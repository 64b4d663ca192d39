// Matching, publishing and evicting: lists inside arrays, a hash index that only proposes.
#include "kv/prefix_cache.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "backend/content_hash.h"
#include "base/check.h"

namespace remontoir {
namespace {

int32_t CommonLength(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t length = std::min(a.size(), b.size());
  const auto end =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin());
  return static_cast<int32_t>(end.first - a.begin());
}

}  // namespace

PrefixCache::PrefixCache(int32_t page_count, uint64_t hash_seed)
    : page_count_(page_count), hash_seed_(hash_seed) {
  REM_CHECK(page_count >= 0 && page_count <= kKvPagesMax, "a number of pages out of bounds");
  const auto pages = static_cast<size_t>(page_count);
  nodes_.resize(2 * pages);
  tokens_.resize(pages * kKvPageTokens);
  keys_.resize(pages);
  free_roots_.reserve(pages);
  for (size_t i = 2 * pages; i > pages; --i) free_roots_.push_back(NodeId(i - 1));
  slots_.resize(std::bit_ceil(std::max<size_t>(2 * pages, 1)), kNone);
}

const PrefixCache::Node& PrefixCache::Of(KvPageId page) const {
  REM_CHECK(Index(page) >= 0 && Index(page) < page_count_, "no page of this cache");
  return At(NodeOf(page));
}

KvPageId PrefixCache::parent(KvPageId page) const {
  const NodeId parent = Of(page).parent;
  return parent == kNone || IsRoot(parent) ? kNoKvPage : PageOf(parent);
}

std::span<const int32_t> PrefixCache::tokens(KvPageId page) const {
  const auto count = static_cast<size_t>(Of(page).token_count);
  return std::span(tokens_).subspan(static_cast<size_t>(Index(page)) * kKvPageTokens, count);
}

PrefixMatch PrefixCache::Match(const PrefixKey& key, std::span<const int32_t> tokens,
                               const MatchLimits& limits) const {
  REM_CHECK(limits.tail_grain >= 1 && kKvPageTokens % limits.tail_grain == 0,
            "grains don't fill a page");
  PrefixMatch match{.key = key, .looked_up = true, .removals = removals_};
  NodeId node = FindRoot(key);
  if (node == kNone || tokens.empty()) return match;
  const auto tokens_max = static_cast<size_t>(std::max(limits.tokens_max, 0));
  std::span<const int32_t> left = tokens.first(std::min(tokens.size() - 1, tokens_max));
  while (left.size() >= kKvPageTokens) {
    const NodeId next = FindFullUnder(node, left.first(kKvPageTokens));
    if (next == kNone) break;
    node = next;
    ++match.page_count;
    match.last_page = PageOf(node);
    left = left.subspan(kKvPageTokens);
  }
  MatchTail(node, left.first(std::min<size_t>(left.size(), kKvPageTokens)), match);
  if (match.tokens() > limits.grain_from)
    match.tail_tokens -= match.tail_tokens % limits.tail_grain;
  if (match.tail_tokens == 0) match.tail_source = kNoKvPage;
  return match;
}

void PrefixCache::MatchTail(NodeId parent, std::span<const int32_t> tokens,
                            PrefixMatch& match) const {
  NodeId child = At(parent).first_child;
  for (int32_t i = 0; i < kChildrenScannedMax && child != kNone; ++i) {
    const int32_t length = CommonLength(tokens, this->tokens(PageOf(child)));
    if (length > match.tail_tokens) {
      match.tail_tokens = length;
      match.tail_source = PageOf(child);
      if (static_cast<size_t>(length) == tokens.size()) return;
    }
    child = At(child).next_sibling;
  }
}

KvPageId PrefixCache::FindFull(const PrefixKey& key, KvPageId parent,
                               std::span<const int32_t> tokens) const {
  REM_CHECK(tokens.size() == kKvPageTokens, "not a full page");
  const NodeId node = FindParent(key, parent);
  return node == kNone ? kNoKvPage : PageOf(FindFullUnder(node, tokens));
}

KvPageId PrefixCache::FindCovering(const PrefixKey& key, KvPageId parent,
                                   std::span<const int32_t> tokens) const {
  const NodeId node = FindParent(key, parent);
  if (node == kNone) return kNoKvPage;
  PrefixMatch match;
  MatchTail(node, tokens, match);
  return static_cast<size_t>(match.tail_tokens) == tokens.size() ? match.tail_source : kNoKvPage;
}

void PrefixCache::Insert(const PrefixKey& key, KvPageId parent, KvPageId page,
                         std::span<const int32_t> tokens) {
  REM_CHECK(!IsPublished(page), "published twice");
  REM_CHECK(!tokens.empty() && tokens.size() <= kKvPageTokens, "a page can't hold that");
  // An unreferenced parent would have to follow its new child in the order of last use.
  REM_CHECK(parent == kNoKvPage || references(parent) > 0, "published under a page nobody holds");
  NodeId above = FindParent(key, parent);
  if (above == kNone) above = MakeRoot(key);
  const NodeId node = NodeOf(page);
  At(node).parent = above;
  At(node).token_count = static_cast<int32_t>(tokens.size());
  At(node).references = 1;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + std::ptrdiff_t{Index(page)} * kKvPageTokens);
  LinkAsFirstChild(node);
  if (tokens.size() == kKvPageTokens) LinkIntoSlot(SlotOfPage(above, tokens), node);
  ++published_;
}

KvPageId PrefixCache::TakeCoveredBy(KvPageId page) {
  REM_CHECK(IsPublished(page), "covers nothing");
  const std::span<const int32_t> covering = tokens(page);
  NodeId child = At(Of(page).parent).first_child;
  for (int32_t i = 0; i < kChildrenScannedMax && child != kNone; ++i) {
    const std::span<const int32_t> held = tokens(PageOf(child));
    if (held.size() < covering.size() && At(child).references == 0 &&
        std::equal(held.begin(), held.end(), covering.begin())) {
      Remove(child);
      return PageOf(child);
    }
    child = At(child).next_sibling;
  }
  return kNoKvPage;
}

void PrefixCache::AddReference(KvPageId page) {
  REM_CHECK(IsPublished(page), "a reference to a page that isn't published");
  const NodeId node = NodeOf(page);
  if (At(node).references++ == 0) UnlinkFromOrder(node);
  UnlinkFromSiblings(node);
  LinkAsFirstChild(node);
}

void PrefixCache::DropReference(KvPageId page) {
  REM_CHECK(references(page) > 0, "dropped a reference that nobody had");
  const NodeId node = NodeOf(page);
  if (--At(node).references == 0) LinkAsNewest(node);
}

KvPageId PrefixCache::Evict() {
  const NodeId node = oldest_;
  if (node != kNone) Remove(node);
  return PageOf(node);
}

void PrefixCache::Remove(NodeId page) {
  Node& node = At(page);
  REM_CHECK(node.references == 0, "a page that is held leaves the tree");
  REM_CHECK(node.first_child == kNone, "a page leaves the tree before its children");
  const NodeId parent = node.parent;
  UnlinkFromOrder(page);
  UnlinkFromSiblings(page);
  if (node.token_count == kKvPageTokens) {
    UnlinkFromSlot(SlotOfPage(parent, tokens(PageOf(page))), page);
  }
  node.parent = kNone;
  node.token_count = 0;
  --published_;
  ++removals_;
  if (IsRoot(parent) && At(parent).first_child == kNone) {
    UnlinkFromSlot(SlotOfRoot(KeyOf(parent)), parent);
    free_roots_.push_back(parent);
  }
}

PrefixCache::NodeId PrefixCache::FindRoot(const PrefixKey& key) const {
  NodeId node = slots_[SlotOfRoot(key)];
  while (node != kNone) {
    if (IsRoot(node) && KeyOf(node) == key) return node;
    node = At(node).next_in_slot;
  }
  return kNone;
}

PrefixCache::NodeId PrefixCache::MakeRoot(const PrefixKey& key) {
  REM_CHECK(!free_roots_.empty(), "more roots than pages");
  const NodeId root = free_roots_.back();
  free_roots_.pop_back();
  KeyOf(root) = key;
  LinkIntoSlot(SlotOfRoot(key), root);
  return root;
}

PrefixCache::NodeId PrefixCache::FindParent(const PrefixKey& key, KvPageId parent) const {
  if (parent == kNoKvPage) return FindRoot(key);
  REM_CHECK(Of(parent).token_count == kKvPageTokens, "only a full page has children");
  return NodeOf(parent);
}

PrefixCache::NodeId PrefixCache::FindFullUnder(NodeId parent,
                                               std::span<const int32_t> tokens) const {
  NodeId node = slots_[SlotOfPage(parent, tokens)];
  while (node != kNone) {
    if (!IsRoot(node) && At(node).parent == parent &&
        std::ranges::equal(this->tokens(PageOf(node)), tokens)) {
      return node;
    }
    node = At(node).next_in_slot;
  }
  return kNone;
}

// A parent's number stands for all tokens before: it can't change while a child is in the tree.
size_t PrefixCache::SlotOfPage(NodeId parent, std::span<const int32_t> tokens) const {
  struct Hashed {
    uint64_t seed = 0;
    int64_t parent = 0;
    std::array<int32_t, kKvPageTokens> tokens = {};
  } hashed{.seed = hash_seed_, .parent = static_cast<int64_t>(parent)};
  std::copy(tokens.begin(), tokens.end(), hashed.tokens.begin());
  return HashBytes(std::as_bytes(std::span(&hashed, 1))).low & (slots_.size() - 1);
}

size_t PrefixCache::SlotOfRoot(const PrefixKey& key) const {
  const std::array<uint64_t, 3> hashed = {hash_seed_, key.low, key.high};
  return HashBytes(std::as_bytes(std::span(hashed))).low & (slots_.size() - 1);
}

void PrefixCache::LinkIntoSlot(size_t slot, NodeId node) {
  At(node).next_in_slot = slots_[slot];
  slots_[slot] = node;
}

void PrefixCache::UnlinkFromSlot(size_t slot, NodeId node) {
  NodeId* link = &slots_[slot];
  while (*link != node) {
    REM_CHECK(*link != kNone, "a node isn't where its hash says");
    link = &At(*link).next_in_slot;
  }
  *link = At(node).next_in_slot;
  At(node).next_in_slot = kNone;
}

void PrefixCache::LinkAsFirstChild(NodeId node) {
  NodeId& first = At(At(node).parent).first_child;
  At(node).previous_sibling = kNone;
  At(node).next_sibling = first;
  if (first != kNone) At(first).previous_sibling = node;
  first = node;
}

void PrefixCache::UnlinkFromSiblings(NodeId node) {
  const NodeId previous = At(node).previous_sibling;
  const NodeId next = At(node).next_sibling;
  (previous == kNone ? At(At(node).parent).first_child : At(previous).next_sibling) = next;
  if (next != kNone) At(next).previous_sibling = previous;
}

void PrefixCache::LinkAsNewest(NodeId node) {
  At(node).older = newest_;
  At(node).newer = kNone;
  (newest_ == kNone ? oldest_ : At(newest_).newer) = node;
  newest_ = node;
  ++unreferenced_;
}

void PrefixCache::UnlinkFromOrder(NodeId node) {
  const NodeId older = At(node).older;
  const NodeId newer = At(node).newer;
  (older == kNone ? oldest_ : At(older).newer) = newer;
  (newer == kNone ? newest_ : At(newer).older) = older;
  --unreferenced_;
}

}  // namespace remontoir
