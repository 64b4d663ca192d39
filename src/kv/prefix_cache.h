// The tree of published KV pages: finds the pages that hold a prompt's beginning.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/kv_layout.h"

namespace remontoir {

inline constexpr KvPageId kNoKvPage{-1};
inline constexpr int32_t kKvPagesMax = 1 << 30;  // in one pool

// Pages under one page (or at the start of a prompt) that are compared token by token for a tail.
inline constexpr int32_t kChildrenScannedMax = 64;

// Everything but the tokens that a page's bits, and who may see them, depend on: a 128-bit value of
// the caller's (model, KV type, tenant's salt, ...). Compared exactly.
struct PrefixKey {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const PrefixKey&, const PrefixKey&) = default;
};

struct MatchLimits {
  int32_t tokens_max = INT32_MAX;  // beside the prompt's length less 1
  // A match that ends past position `grain_from` has a tail of whole grains. Divides kKvPageTokens.
  int32_t tail_grain = 1;
  int32_t grain_from = 0;
};

// The longest cached beginning of a prompt. Of fixed size: the pages are the last one and those
// above it in the tree. Holds nothing: it stands until a page leaves the tree, so reserve with it
// before anything else is reserved or published, or look again.
struct PrefixMatch {
  PrefixKey key;
  bool looked_up = false;          // false: the cache is bypassed
  int32_t page_count = 0;          // whole pages, to be shared
  KvPageId last_page = kNoKvPage;  // the deepest of them
  int32_t tail_tokens = 0;         // below kKvPageTokens; to be copied
  KvPageId tail_source = kNoKvPage;
  int64_t removals = 0;  // the tree's at that time

  int32_t tokens() const { return page_count * kKvPageTokens + tail_tokens; }
};

// A node is a page: the tokens in it, under the page with those before, or under its key's root. A
// page of kKvPageTokens is full and may have children; one with fewer is a tail. Pages that are
// referenced stay; the others stand in the order of their last use, and a page never comes before
// its children there: who references a page references all above it, and lets go the deepest first.
//
// One thread. All storage is taken when it is made; nothing allocates afterwards. Calls that break
// a rule stated here are bugs and stop the process.
class PrefixCache {
 public:
  // For pages 0 ... page_count - 1, at most kKvPagesMax. hash_seed: anything; unknown to clients it
  // keeps them from choosing tokens that make look-ups slow. Answers don't depend on it.
  PrefixCache(int32_t page_count, uint64_t hash_seed);

  // Never covers the last token, which is to be computed. Whole pages by hash and comparison, then
  // the longest common beginning among kChildrenScannedMax pages below, latest used first.
  PrefixMatch Match(const PrefixKey& key, std::span<const int32_t> tokens,
                    const MatchLimits& limits = {}) const;

  // The full page with these kKvPageTokens tokens under `parent` (kNoKvPage: at the start), or
  // kNoKvPage.
  KvPageId FindFull(const PrefixKey& key, KvPageId parent, std::span<const int32_t> tokens) const;
  // Some page under `parent` that begins with these tokens, among those scanned; or kNoKvPage.
  KvPageId FindCovering(const PrefixKey& key, KvPageId parent,
                        std::span<const int32_t> tokens) const;

  // Publishes a page of 1 ... kKvPageTokens tokens with one reference. A parent is a full page
  // somebody references.
  void Insert(const PrefixKey& key, KvPageId parent, KvPageId page,
              std::span<const int32_t> tokens);
  // Takes an unreferenced page out of the tree that is shorter than `page`, has its parent and
  // holds only tokens that `page` begins with. kNoKvPage: there is none among those scanned.
  KvPageId TakeCoveredBy(KvPageId page);

  void AddReference(KvPageId page);   // also its latest use
  void DropReference(KvPageId page);  // the last one: it may be evicted from now on
  // Takes the least recently used unreferenced page out of the tree; kNoKvPage: there is none.
  KvPageId Evict();

  // Unreferenced pages in the order in which they would be evicted; kNoKvPage: no more.
  KvPageId oldest() const { return PageOf(oldest_); }
  KvPageId newer(KvPageId page) const { return PageOf(Of(page).newer); }

  int32_t pages_published() const { return published_; }
  int32_t pages_unreferenced() const { return unreferenced_; }
  int64_t removals() const { return removals_; }

  bool IsPublished(KvPageId page) const { return Of(page).token_count > 0; }
  int32_t references(KvPageId page) const { return Of(page).references; }
  // Of a published page. kNoKvPage for one at the start.
  KvPageId parent(KvPageId page) const;
  std::span<const int32_t> tokens(KvPageId page) const;

 private:
  enum class NodeId : int32_t {};  // a page, or page_count + i: the i-th root
  static constexpr NodeId kNone{-1};

  struct Node {
    NodeId parent = kNone;
    NodeId first_child = kNone;  // latest used first; a root without children is free
    NodeId previous_sibling = kNone;
    NodeId next_sibling = kNone;
    NodeId older = kNone;  // among unreferenced pages
    NodeId newer = kNone;
    NodeId next_in_slot = kNone;
    int32_t token_count = 0;  // 0: not published, or a root
    int32_t references = 0;
  };

  static NodeId NodeOf(KvPageId page) { return NodeId(Index(page)); }
  Node& At(NodeId node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& At(NodeId node) const { return nodes_[static_cast<size_t>(node)]; }
  const Node& Of(KvPageId page) const;
  bool IsRoot(NodeId node) const { return static_cast<int32_t>(node) >= page_count_; }
  KvPageId PageOf(NodeId node) const {
    return node == kNone ? kNoKvPage : KvPageId(static_cast<int32_t>(node));
  }

  PrefixKey& KeyOf(NodeId root) { return keys_[static_cast<size_t>(root) - keys_.size()]; }
  const PrefixKey& KeyOf(NodeId root) const {
    return keys_[static_cast<size_t>(root) - keys_.size()];
  }
  NodeId FindRoot(const PrefixKey& key) const;
  NodeId MakeRoot(const PrefixKey& key);
  NodeId FindParent(const PrefixKey& key, KvPageId parent) const;
  NodeId FindFullUnder(NodeId parent, std::span<const int32_t> tokens) const;
  void MatchTail(NodeId parent, std::span<const int32_t> tokens, PrefixMatch& match) const;
  void Remove(NodeId page);

  size_t SlotOfPage(NodeId parent, std::span<const int32_t> tokens) const;
  size_t SlotOfRoot(const PrefixKey& key) const;
  void LinkIntoSlot(size_t slot, NodeId node);
  void UnlinkFromSlot(size_t slot, NodeId node);
  void LinkAsFirstChild(NodeId node);
  void UnlinkFromSiblings(NodeId node);
  void LinkAsNewest(NodeId node);
  void UnlinkFromOrder(NodeId node);

  const int32_t page_count_;
  const uint64_t hash_seed_;
  std::vector<Node> nodes_;         // pages, then as many roots
  std::vector<int32_t> tokens_;     // [page_count][kKvPageTokens]
  std::vector<PrefixKey> keys_;     // [page_count], of roots
  std::vector<NodeId> free_roots_;  // a root lives while it has children, so there are enough
  std::vector<NodeId> slots_;       // a power of two of hash chains: full pages and roots
  NodeId oldest_ = kNone;
  NodeId newest_ = kNone;
  int32_t published_ = 0;
  int32_t unreferenced_ = 0;
  int64_t removals_ = 0;
};

}  // namespace remontoir
