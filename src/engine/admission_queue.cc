// A vector in order of arrival behind a mutex: at most a few hundred entries, a pointer each.
#include "engine/admission_queue.h"

#include <string>
#include <utility>

namespace remontoir {

AdmissionQueue::AdmissionQueue(int32_t capacity) : capacity_(capacity) {
  entries_.reserve(capacity_);
}

Status AdmissionQueue::Push(Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Unavailable("the engine is shutting down");
  if (entries_.size() >= capacity_) {
    return ResourceExhausted("the queue is full: " + std::to_string(capacity_) +
                             " requests are waiting (engine.queue_max)");
  }
  entries_.push_back(std::move(entry));
  return Status::Ok();
}

void AdmissionQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

int32_t AdmissionQueue::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(entries_.size());
}

void AdmissionQueue::Take(std::span<const int32_t> places, std::vector<Entry>& taken) {
  if (places.empty()) return;
  const std::lock_guard lock(mutex_);
  size_t next = 0;
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (next < places.size() && static_cast<size_t>(places[next]) == i) {
      taken.push_back(std::move(entries_[i]));
      ++next;
    } else {
      if (kept != i) entries_[kept] = std::move(entries_[i]);
      ++kept;
    }
  }
  REM_CHECK(next == places.size(), "places of waiting entries, ascending");
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(kept), entries_.end());
}

}  // namespace remontoir
