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

AdmissionQueue::Entry AdmissionQueue::PopFront() {
  const std::lock_guard lock(mutex_);
  REM_CHECK(!entries_.empty(), "nothing waits");
  Entry front = std::move(entries_.front());
  entries_.erase(entries_.begin());
  return front;
}

}  // namespace remontoir
