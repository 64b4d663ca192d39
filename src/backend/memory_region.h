// Memory straight from the system: zeroed, aligned to huge pages, given back whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace remontoir {

class WorkerPool;

// Pages come into being when first touched, huge ones where the system gives them.
class MemoryRegion {
 public:
  static constexpr int64_t kAlignment = int64_t{2} << 20;

  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;

  // At least `bytes`. `purpose` names the memory in the error when the system refuses.
  static Result<MemoryRegion> Take(int64_t bytes, const char* purpose);

  // Touches every page, on all workers, so that no later access faults.
  void Prefault(WorkerPool& pool);

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  MemoryRegion(void* mapping, int64_t mapping_bytes, std::byte* data, int64_t size_bytes)
      : mapping_(mapping), mapping_bytes_(mapping_bytes), data_(data), size_bytes_(size_bytes) {}

  void* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace remontoir
