// Numbers that any thread may change and read at any time: relaxed atomics, no lock, no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace remontoir {

class Counter {
 public:
  void Add(int64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  // For a total that is kept elsewhere and copied when the page is asked for; never goes back.
  void Set(int64_t total) { value_.store(total, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

inline constexpr size_t kHistogramBoundsMax = 24;

// The buckets of a histogram: it takes whole numbers, microseconds or tokens.
struct HistogramBounds {
  std::span<const int64_t> upper;  // ascending; a value equal to one lies below it
  double per_unit = 1;  // of what is observed in one of what is shown: 1e6 shows us as seconds
};

class Histogram {
 public:
  // What the bounds point to outlives the histogram.
  explicit Histogram(const HistogramBounds& bounds) : upper_(bounds.upper) {
    REM_CHECK(upper_.size() <= kHistogramBoundsMax, "more buckets than a histogram has");
    REM_CHECK(std::ranges::is_sorted(upper_, std::less_equal<>()), "bounds must ascend");
  }

  void Observe(int64_t value) {
    const auto bucket = std::ranges::lower_bound(upper_, value) - upper_.begin();
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  std::span<const int64_t> upper() const { return upper_; }
  // Values in bucket i alone; i == upper().size(): those beyond the last bound.
  int64_t count(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  int64_t count() const {
    int64_t all = 0;
    for (size_t i = 0; i <= upper_.size(); ++i) all += count(i);
    return all;
  }
  int64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::span<const int64_t> upper_;
  std::array<std::atomic<int64_t>, kHistogramBoundsMax + 1> counts_ = {};
  std::atomic<int64_t> sum_{0};
};

}  // namespace remontoir
