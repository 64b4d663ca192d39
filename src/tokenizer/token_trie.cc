// The trie is built breadth first from the sorted spellings, so that siblings are neighbours.
#include "tokenizer/token_trie.h"

#include <algorithm>
#include <deque>

namespace remontoir {
namespace {

// Sorted entries [begin, end) share the first `depth` bytes: the path to `node`.
struct Range {
  uint32_t node;
  size_t begin;
  size_t end;
  size_t depth;
};

}  // namespace

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.spelling < b.spelling; });
  nodes_.emplace_back();
  std::deque<Range> todo = {{0, 0, entries.size(), 0}};
  while (!todo.empty()) {
    Range range = todo.front();
    todo.pop_front();
    while (range.begin < range.end && entries[range.begin].spelling.size() == range.depth) {
      if (range.depth > 0) nodes_[range.node].token = entries[range.begin].token;
      ++range.begin;
    }
    nodes_[range.node].first_child = static_cast<uint32_t>(nodes_.size());
    for (size_t begin = range.begin; begin < range.end;) {
      const char label = entries[begin].spelling[range.depth];
      size_t end = begin + 1;
      while (end < range.end && entries[end].spelling[range.depth] == label) ++end;
      todo.push_back({static_cast<uint32_t>(nodes_.size()), begin, end, range.depth + 1});
      ++nodes_[range.node].children;
      nodes_.emplace_back().label = static_cast<uint8_t>(label);
      begin = end;
    }
  }
  for (uint32_t i = 0; i < nodes_[0].children; ++i) {
    root_children_[nodes_[nodes_[0].first_child + i].label] = nodes_[0].first_child + i;
  }
}

uint32_t TokenTrie::Child(uint32_t node, uint8_t label) const {
  if (node == 0) return root_children_[label];
  const auto first = nodes_.begin() + nodes_[node].first_child;
  const auto last = first + nodes_[node].children;
  const auto child = std::lower_bound(
      first, last, label, [](const Node& have, uint8_t wanted) { return have.label < wanted; });
  if (child == last || child->label != label) return 0;
  return static_cast<uint32_t>(child - nodes_.begin());
}

std::optional<TokenTrie::Match> TokenTrie::Longest(std::string_view text) const {
  std::optional<Match> longest;
  ForEachPrefix(text, [&longest](size_t length, TokenId token) { longest = {length, token}; });
  return longest;
}

}  // namespace remontoir
