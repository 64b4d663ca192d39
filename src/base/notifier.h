// Wakes a thread that waits on a file descriptor (an event loop) or blocks in Wait.
#pragma once

#include "base/status.h"

namespace remontoir {

// An eventfd. Notify may be called from any thread and never blocks; wake-ups coalesce.
class Notifier {
 public:
  Notifier();
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  void Notify();
  // Readable while a notification is pending; Clear makes it unreadable again.
  int descriptor() const { return descriptor_; }
  void Clear();
  // Blocks until notified or timeout_ms passed (-1: no limit), then clears. False on time-out.
  bool Wait(int timeout_ms);

 private:
  int descriptor_;
};

}  // namespace remontoir
