// A plain model of the KV room: maps of token lists, no lists inside arrays. It foretells exactly
// what pool and leases do, and knows what stands in every page.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kv/kv_pool.h"

namespace remontoir {

using Tokens = std::vector<int32_t>;

class KvModel {
 public:
  struct Page {
    uint64_t salt = 0;
    Tokens path;  // all tokens from the start to this page's end
    int parent = -1;
    int references = 0;
    int64_t touched = 0;   // latest reference or publication
    int64_t released = 0;  // latest time at which the last reference went
  };

  struct Match {
    std::vector<int> pages;
    int tail_source = -1;
    int tail_tokens = 0;
  };

  explicit KvModel(int pages) {
    for (int page = 0; page < pages; ++page) free.insert(page);
  }

  static Tokens Beginning(const Tokens& tokens, size_t count) {
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  static size_t PartBegin(const Page& page) {
    return (page.path.size() - 1) / kKvPageTokens * kKvPageTokens;
  }

  int Find(uint64_t salt, const Tokens& path) const {
    const auto found = by_path.find({salt, path});
    return found == by_path.end() ? -1 : found->second;
  }

  // How much of `tokens`, that begin where this page does, it holds.
  static int Common(const Page& page, std::span<const int32_t> tokens) {
    const size_t begin = PartBegin(page);
    size_t length = 0;
    while (length < tokens.size() && begin + length < page.path.size() &&
           page.path[begin + length] == tokens[length]) {
      ++length;
    }
    return static_cast<int>(length);
  }

  // The page below `parent` with the longest common beginning; of equals the latest touched.
  std::pair<int, int> Longest(uint64_t salt, int parent, std::span<const int32_t> tokens) const {
    int best = -1;
    int best_length = 0;
    for (const auto& [number, page] : published) {
      if (page.parent != parent || page.salt != salt) continue;
      const int length = Common(page, tokens);
      if (length == 0 || length < best_length) continue;
      if (length == best_length && published.at(best).touched > page.touched) continue;
      best = number;
      best_length = length;
    }
    return {best, best_length};
  }

  Match Lookup(uint64_t salt, const Tokens& prompt) const {
    Match match;
    const size_t limit = prompt.size() - 1;
    size_t matched = 0;
    while (matched + kKvPageTokens <= limit) {
      const int page = Find(salt, Beginning(prompt, matched + kKvPageTokens));
      if (page < 0) break;
      match.pages.push_back(page);
      matched += kKvPageTokens;
    }
    const auto left =
        std::span(prompt).subspan(matched, std::min<size_t>(limit - matched, kKvPageTokens));
    const int parent = match.pages.empty() ? -1 : match.pages.back();
    std::tie(match.tail_source, match.tail_tokens) = Longest(salt, parent, left);
    return match;
  }

  int Unreferenced() const {
    return static_cast<int>(std::ranges::count_if(
        published, [](const auto& entry) { return entry.second.references == 0; }));
  }
  int Available() const { return static_cast<int>(free.size()) + Unreferenced(); }
  bool HasChildren(int number) const {
    return std::ranges::any_of(published,
                               [&](const auto& entry) { return entry.second.parent == number; });
  }

  void AddReference(int number) {
    Page& page = published.at(number);
    ++page.references;
    page.touched = ++clock;
  }
  void DropReference(int number) {
    Page& page = published.at(number);
    if (--page.references == 0) page.released = ++clock;
  }

  void Unpublish(int number) {
    const Page& page = published.at(number);
    by_path.erase({page.salt, page.path});
    published.erase(number);
    contents.erase(number);
    free.insert(number);
  }

  // The unreferenced page whose last reference went first.
  int Oldest() const {
    int oldest = -1;
    for (const auto& [number, page] : published) {
      if (page.references > 0) continue;
      if (oldest < 0 || page.released < published.at(oldest).released) oldest = number;
    }
    return oldest;
  }

  // A lease's own page becomes visible; returns how many shorter tails gave way.
  int Publish(uint64_t salt, int parent, int number, const Tokens& path) {
    owner.erase(number);
    by_path[{salt, path}] = number;
    published[number] = {salt, path, parent, 1, ++clock, 0};
    std::vector<int> covered;
    for (const auto& [other, page] : published) {
      if (page.parent != parent || page.salt != salt || page.references > 0) continue;
      if (page.path.size() < path.size() &&
          std::equal(page.path.begin(), page.path.end(), path.begin())) {
        covered.push_back(other);
      }
    }
    for (const int other : covered) Unpublish(other);
    return static_cast<int>(covered.size());
  }

  std::set<int> free;
  std::map<int, int> owner;  // private pages to leases
  std::map<int, Page> published;
  std::map<std::pair<uint64_t, Tokens>, int> by_path;
  std::map<int, Tokens> contents;  // what was written into a page that isn't free
  int64_t clock = 0;
};

}  // namespace remontoir
