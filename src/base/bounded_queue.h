// A bounded queue between threads: full is an answer, not a wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace remontoir {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when the queue is full or closed; the value is untouched then.
  bool TryPush(T&& value) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || values_.size() >= capacity_) return false;
      values_.push_back(std::move(value));
    }
    ready_.notify_one();
    return true;
  }

  std::optional<T> TryPop() {
    const std::lock_guard lock(mutex_);
    return PopLocked();
  }

  // Waits for a value; empty only after Close, once the queue is drained.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !values_.empty(); });
    return PopLocked();
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  std::optional<T> PopLocked() {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    return value;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> values_;
  bool closed_ = false;
};

}  // namespace remontoir
