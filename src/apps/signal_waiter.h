// Hears signals on a thread of its own, where ordinary code may run.
#pragma once

#include <functional>
#include <initializer_list>
#include <thread>

#include "base/notifier.h"

namespace remontoir {

// Made before the program starts other threads: the signals are blocked in this thread and in all
// that it starts, so that they come here alone.
class SignalWaiter {
 public:
  SignalWaiter(std::initializer_list<int> signals, std::function<void(int)> on_signal);
  ~SignalWaiter();  // signals stay blocked: there is no handler to fall back to
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

 private:
  void Wait();

  const std::function<void(int)> on_signal_;
  Notifier stop_;
  int descriptor_;
  std::thread thread_;
};

}  // namespace remontoir
