// Facts about memory on the request path: a round takes none.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/backend/rounds.h"
#include "tests/unit/backend/tiny_model.h"

namespace {

std::atomic<long> allocations{0};

void* Allocate(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) std::abort();
  return memory;
}

}  // namespace

// All forms, so that no pair of new and delete comes from two libraries.
void* operator new(std::size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace remontoir::testing {
namespace {

std::vector<int32_t> Repeat(int32_t tokens) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < tokens; ++i) text.push_back(i % 50);
  return text;
}

TEST(CpuBackend, RoundsAllocateNothing) {
  TinyShape shape;
  shape.type = DType::kQ8_0;
  shape.experts = 4;
  shape.window = 30;
  CpuBackendOptions options;
  options.threads = 2;
  const TinyModel model(shape);
  Rounds rounds(model, options);
  const size_t first = rounds.Add(Repeat(400));
  const size_t second = rounds.Add(Repeat(2000));
  for (int round = 0; round < 100; ++round) {
    // Prefill, decode and both, none of them run before.
    std::vector<Chunk> chunks = {{first, 1 + round % 7}};
    if (round % 3 != 0) chunks.push_back({second, 1 + round % 40});
    const RoundInputs& inputs = rounds.Prepare(chunks);
    const long before = allocations.load();
    rounds.backend().Run(inputs);
    ASSERT_EQ(allocations.load(), before) << "round " << round;
    rounds.Run(chunks);
  }
}

}  // namespace
}  // namespace remontoir::testing
