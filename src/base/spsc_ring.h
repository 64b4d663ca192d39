// A bounded ring between one producer and one consumer thread; no lock, no allocation after start.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace remontoir {

template <class T>
class SpscRing {
 public:
  // Room for at least `capacity` elements (rounded up to a power of two).
  explicit SpscRing(size_t capacity) : slots_(std::bit_ceil(capacity)) {
    REM_CHECK(capacity > 0, "a ring needs room");
  }

  // Producer. False, and nothing changes, when the ring is full.
  bool TryPush(const T& value) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[head & (slots_.size() - 1)] = value;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Consumer. False when the ring is empty.
  bool TryPop(T& value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;
    value = slots_[tail & (slots_.size() - 1)];
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Producer. How many TryPush will take at least.
  size_t room() const {
    return slots_.size() -
           (head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire));
  }

  size_t capacity() const { return slots_.size(); }

 private:
  std::vector<T> slots_;
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> tail_{0};
};

}  // namespace remontoir
