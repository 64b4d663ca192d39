// The merging at the heart of byte-pair encoding: n log n in the number of symbols.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sampling/token_id.h"

namespace remontoir {

// Joins neighbours, the cheapest pair first and the leftmost of equals, until no pair can be
// joined. Keeps its memory from use to use; one object serves one thread.
class MergeQueue {
 public:
  // A stretch [begin, end) of the text, not empty.
  struct Symbol {
    TokenId token;  // kNoToken: no token stands for it
    uint32_t begin;
    uint32_t end;
    int32_t previous = -1;  // in symbols; -1: none
    int32_t next = -1;
  };
  struct Joined {
    double cost;
    TokenId token;
  };

  void Clear() { symbols_.clear(); }
  void Add(TokenId token, uint32_t begin, uint32_t end) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({token, begin, end, index - 1, -1});
  }
  bool empty() const { return symbols_.empty(); }

  // find(left, right) -> std::optional<Joined>: what two neighbours become, if anything.
  template <class Find>
  void Run(Find find) {
    heap_.clear();
    for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols_.size()); ++i) Propose(i, find);
    std::make_heap(heap_.begin(), heap_.end(), Later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      const Candidate candidate = heap_.back();
      heap_.pop_back();
      Symbol& left = symbols_[candidate.left];
      if (left.end != candidate.middle || left.next < 0) continue;  // overtaken by another merge
      Symbol& right = symbols_[left.next];
      if (right.end != candidate.end) continue;
      left.token = candidate.token;
      left.end = right.end;
      left.next = right.next;
      right.end = right.begin;  // gone
      if (left.next >= 0) symbols_[left.next].previous = candidate.left;
      ProposeInHeap(left.previous, find);
      ProposeInHeap(candidate.left, find);
    }
  }

  // visit(symbol) for what is left, in the text's order.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[i].next) visit(symbols_[i]);
  }

 private:
  struct Candidate {
    double cost;
    int32_t left;
    uint32_t middle;
    uint32_t end;
    TokenId token;
  };

  static bool Later(const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.left > b.left;
  }

  template <class Find>
  bool Propose(int32_t left, Find& find) {
    if (left < 0 || symbols_[left].next < 0) return false;
    const Symbol& a = symbols_[left];
    const Symbol& b = symbols_[a.next];
    const std::optional<Joined> joined = find(a, b);
    if (!joined.has_value()) return false;
    heap_.push_back({joined->cost, left, a.end, b.end, joined->token});
    return true;
  }

  template <class Find>
  void ProposeInHeap(int32_t left, Find& find) {
    if (Propose(left, find)) std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace remontoir
