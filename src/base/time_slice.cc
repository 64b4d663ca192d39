// Reads the thread's scheduling attributes and writes them back with a shorter turn.
#include "base/time_slice.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace remontoir {

#if defined(__linux__)

namespace {

constexpr uint64_t kTurnNs = 1'000'000;

// The kernel's struct sched_attr of 48 bytes, its first version: the C library's headers and the
// kernel's can't be included together.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;  // under SCHED_OTHER: the turn
  uint64_t deadline_ns;
  uint64_t period_ns;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void AskForShortTurns() {
  SchedulingAttributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = kTurnNs;
  // A system that knows no turns ignores it, and one that refuses leaves the thread as it was.
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

#else

void AskForShortTurns() {}

#endif

}  // namespace remontoir
