// Replies about chats that were rendered a moment ago, by the request's body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace remontoir {

struct RenderCacheLimits {
  size_t entries_max = 64;
  size_t bytes_max = size_t{16} << 20;  // of bodies and replies together
  int64_t age_max_s = 60;               // a template may write the time
};

// One thread at a time. The entry that nobody asked for longest goes first.
class RenderCache {
 public:
  explicit RenderCache(const RenderCacheLimits& limits = {}) : limits_(limits) {}

  // Null when there is none. Valid until the next call.
  const std::string* Find(std::string_view body, int64_t unix_seconds);

  // Drops an older reply to the same body; keeps nothing that is larger than the cache.
  void Add(std::string_view body, std::string reply, int64_t unix_seconds);

 private:
  struct Entry {
    std::string body;
    std::string reply;
    int64_t since = 0;  // Unix seconds
  };
  using Entries = std::list<Entry>;

  void Drop(Entries::iterator entry);

  const RenderCacheLimits limits_;
  Entries entries_;                                                  // the latest asked for first
  std::unordered_map<std::string_view, Entries::iterator> by_body_;  // views into entries_
  size_t bytes_ = 0;
};

}  // namespace remontoir
