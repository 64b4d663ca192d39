// eventfd behind Notifier.
#include "base/notifier.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace remontoir {

Notifier::Notifier() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  REM_CHECK(descriptor_ >= 0, "eventfd: out of file descriptors at start");
}

Notifier::~Notifier() { close(descriptor_); }

void Notifier::Notify() {
  const uint64_t one = 1;
  // A full counter means that a wake-up is pending already.
  [[maybe_unused]] const auto written = write(descriptor_, &one, sizeof(one));
}

void Notifier::Clear() {
  uint64_t count = 0;
  [[maybe_unused]] const auto got = read(descriptor_, &count, sizeof(count));
}

bool Notifier::Wait(int timeout_ms) {
  pollfd waited = {descriptor_, POLLIN, 0};
  const bool notified = poll(&waited, 1, timeout_ms) > 0;
  if (notified) Clear();
  return notified;
}

}  // namespace remontoir
