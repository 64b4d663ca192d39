// The counting operator new, a part that a program links (rem_heap_counter) or doesn't.
#pragma once

#include <cstdint>

namespace remontoir::heap_counter {

// Null where the part is missing: ask base/thread_counters.h.
[[gnu::weak]] int64_t OfThread();
[[gnu::weak]] int64_t OfProcess();

}  // namespace remontoir::heap_counter
