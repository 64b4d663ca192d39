// Replaces every form of operator new and delete by one that counts. In no library: linked only
// into programs that name rem_heap_counter.
#include "base/heap_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REMONTOIR_SANITIZED_HEAP 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REMONTOIR_SANITIZED_HEAP 1
#endif

// A sanitizer's own operators know more about a wrong delete than a count is worth.
#if !defined(REMONTOIR_SANITIZED_HEAP)

namespace {

constinit thread_local int64_t thread_count = 0;
constinit std::atomic<int64_t> process_count{0};

// Null when there is no memory, even after the new-handler did what it could.
void* Allocate(std::size_t bytes, std::size_t alignment) noexcept {
  ++thread_count;
  process_count.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    void* memory = nullptr;
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      memory = std::malloc(bytes == 0 ? 1 : bytes);
    } else if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) {
      memory = nullptr;
    }
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}

void* AllocateOrThrow(std::size_t bytes, std::size_t alignment) {
  if (void* memory = Allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

constexpr std::size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
constexpr std::size_t Bytes(std::align_val_t alignment) {
  return static_cast<std::size_t>(alignment);
}

}  // namespace

namespace remontoir::heap_counter {

int64_t OfThread() { return thread_count; }
int64_t OfProcess() { return process_count.load(std::memory_order_relaxed); }

}  // namespace remontoir::heap_counter

void* operator new(std::size_t n) { return AllocateOrThrow(n, kPlain); }
void* operator new[](std::size_t n) { return AllocateOrThrow(n, kPlain); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return Allocate(n, kPlain); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return Allocate(n, kPlain); }
void* operator new(std::size_t n, std::align_val_t a) { return AllocateOrThrow(n, Bytes(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return AllocateOrThrow(n, Bytes(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Allocate(n, Bytes(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Allocate(n, Bytes(a));
}

void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

#endif  // the heap is not a sanitizer's
