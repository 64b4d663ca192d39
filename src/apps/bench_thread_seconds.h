// The clock of benches of one thread: what others do on its core while it waits doesn't count.
#pragma once

#include <ctime>

namespace remontoir {

// Seconds of processor time that the calling thread has had.
inline double ThreadSeconds() {
  constexpr double kNano = 1e-9;
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
}

}  // namespace remontoir
