// A bounded list in order of use and its index.
#include "server/render_cache.h"

#include <iterator>
#include <utility>

namespace remontoir {

const std::string* RenderCache::Find(std::string_view body, int64_t unix_seconds) {
  const auto found = by_body_.find(body);
  if (found == by_body_.end()) return nullptr;
  const Entries::iterator entry = found->second;
  // A clock that was set back makes an entry no younger than new.
  const int64_t age_s = unix_seconds - entry->since;
  if (age_s < 0 || age_s > limits_.age_max_s) {
    Drop(entry);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, entry);
  return &entry->reply;
}

void RenderCache::Add(std::string_view body, std::string reply, int64_t unix_seconds) {
  if (const auto found = by_body_.find(body); found != by_body_.end()) Drop(found->second);
  const size_t bytes = body.size() + reply.size();
  if (bytes > limits_.bytes_max) return;
  while (entries_.size() >= limits_.entries_max || bytes_ + bytes > limits_.bytes_max) {
    Drop(std::prev(entries_.end()));
  }
  entries_.push_front({std::string(body), std::move(reply), unix_seconds});
  by_body_.emplace(entries_.front().body, entries_.begin());
  bytes_ += bytes;
}

void RenderCache::Drop(Entries::iterator entry) {
  bytes_ -= entry->body.size() + entry->reply.size();
  by_body_.erase(entry->body);
  entries_.erase(entry);
}

}  // namespace remontoir
