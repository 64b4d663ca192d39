// The system's monotonic and calendar clocks.
#include "base/clock.h"

#include <chrono>

namespace remontoir {

TimePoint SystemClock::Now() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
}

int64_t SystemClock::UnixSeconds() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace remontoir
