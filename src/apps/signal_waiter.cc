// Waits for signals with a signalfd beside an eventfd that ends the wait.
#include "apps/signal_waiter.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "base/check.h"

namespace remontoir {

SignalWaiter::SignalWaiter(std::initializer_list<int> signals, std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  REM_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals can be blocked");
  descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  REM_CHECK(descriptor_ >= 0, "signalfd");
  thread_ = std::thread([this] { Wait(); });
}

SignalWaiter::~SignalWaiter() {
  stop_.Notify();
  thread_.join();
  close(descriptor_);
}

void SignalWaiter::Wait() {
  pollfd sources[] = {{descriptor_, POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}};
  while (true) {
    if (poll(sources, 2, -1) < 0) continue;
    if (sources[1].revents != 0) return;
    signalfd_siginfo info;
    while (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      on_signal_(static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace remontoir
