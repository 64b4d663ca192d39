// The thread for work on text that is too long for the event loop: parsing, templates, tokenizing.
#pragma once

#include <functional>
#include <thread>

#include "base/bounded_queue.h"

namespace remontoir {

class TextWorker {
 public:
  explicit TextWorker(size_t queue_max) : jobs_(queue_max) {
    thread_ = std::thread([this] {
      while (auto job = jobs_.Pop()) (*job)();
    });
  }
  // Waits for the jobs that are queued.
  ~TextWorker() {
    jobs_.Close();
    thread_.join();
  }
  TextWorker(const TextWorker&) = delete;
  TextWorker& operator=(const TextWorker&) = delete;

  // False when the queue is full.
  bool TryRun(std::function<void()> job) { return jobs_.TryPush(std::move(job)); }

 private:
  BoundedQueue<std::function<void()>> jobs_;
  std::thread thread_;
};

}  // namespace remontoir
