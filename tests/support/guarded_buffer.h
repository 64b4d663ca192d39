// Memory that touches a page nobody may read or write: an access beyond it ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace remontoir {

// Which end of the memory touches the forbidden page.
enum class GuardSide : uint8_t { kAtEnd, kAtBegin };

inline constexpr GuardSide kGuardSides[] = {GuardSide::kAtEnd, GuardSide::kAtBegin};

inline const char* Name(GuardSide side) {
  return side == GuardSide::kAtEnd ? "guard at the end" : "guard at the beginning";
}

// `bytes` of memory between two forbidden pages, touching one of them. What lies between the memory
// and the other one is filled with a pattern, so that writes there are seen too. Aligned to what
// divides `bytes` when the guard is at the end, to a page when it is at the beginning.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, GuardSide side) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_bytes_ = (bytes + page - 1) / page * page;
    mapping_bytes_ = inner_bytes_ + 2 * page;
    void* mapping = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REM_CHECK(mapping != MAP_FAILED, "no memory for a guarded buffer");
    mapping_ = static_cast<std::byte*>(mapping);
    inner_ = mapping_ + page;
    Protect(PROT_READ | PROT_WRITE);
    std::fill_n(inner_, inner_bytes_, kPattern);
    data_ = side == GuardSide::kAtEnd ? inner_ + (inner_bytes_ - bytes) : inner_;
  }
  ~GuardedBuffer() { munmap(mapping_, mapping_bytes_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

  // From now on a write ends the test: what kernels only read.
  void MakeReadOnly() { Protect(PROT_READ); }

  // Whether everything around the memory is as it was.
  bool surroundings_intact() const {
    const auto is_pattern = [](std::byte b) { return b == kPattern; };
    return std::all_of(inner_, data_, is_pattern) &&
           std::all_of(data_ + bytes_, inner_ + inner_bytes_, is_pattern);
  }

 private:
  // Four of them are a NaN, as a float and as two halves of either kind.
  static constexpr std::byte kPattern{0xff};

  void Protect(int protection) {
    if (inner_bytes_ == 0) return;
    REM_CHECK(mprotect(inner_, inner_bytes_, protection) == 0, "mprotect of a guarded buffer");
  }

  size_t bytes_;
  size_t inner_bytes_ = 0;
  size_t mapping_bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::byte* inner_ = nullptr;
  std::byte* data_ = nullptr;
};

// The guarded arrays of one kernel call.
class GuardedArrays {
 public:
  explicit GuardedArrays(GuardSide side) : side_(side) {}

  // A copy that may only be read.
  template <class T>
  const T* In(const std::vector<T>& values) {
    T* copy = InOut(values);
    buffers_.back()->MakeReadOnly();
    return copy;
  }

  // A copy that may be written.
  template <class T>
  T* InOut(const std::vector<T>& values) {
    T* copy = Out<T>(values.size());
    if (!values.empty()) std::memcpy(copy, values.data(), values.size() * sizeof(T));
    return copy;
  }

  // `count` values that hold NaN.
  template <class T>
  T* Out(size_t count) {
    buffers_.push_back(std::make_unique<GuardedBuffer>(count * sizeof(T), side_));
    return reinterpret_cast<T*>(buffers_.back()->data());
  }

  bool surroundings_intact() const {
    return std::all_of(buffers_.begin(), buffers_.end(),
                       [](const auto& buffer) { return buffer->surroundings_intact(); });
  }

 private:
  const GuardSide side_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

template <class T>
std::vector<T> Copied(const T* values, size_t count) {
  return std::vector<T>(values, values + count);
}

}  // namespace remontoir
