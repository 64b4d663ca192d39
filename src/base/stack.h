// A thread's stack in memory before it is needed.
#pragma once

#include <cstddef>

namespace remontoir {

inline constexpr size_t kPrefaultedStackBytes = size_t{256} << 10;

// Touches the calling thread's next kPrefaultedStackBytes of stack: calls that go that deep later,
// with arrays of their own, fault no more. Threads have 8 MiB by default.
[[gnu::noinline]] inline void PrefaultStack() {
  constexpr size_t kPageBytes = 4096;
  std::byte pages[kPrefaultedStackBytes];
  for (size_t at = 0; at < kPrefaultedStackBytes; at += kPageBytes) pages[at] = std::byte{0};
  asm volatile("" : : "r"(pages) : "memory");  // somebody might read them
}

}  // namespace remontoir
