// Sequences that wait for a slot, in order of arrival: the door between submitters and the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/scheduler.h"

namespace remontoir {

class Generation;

// Bounded; storage is taken once. Any thread pushes, one thread takes.
class AdmissionQueue {
 public:
  struct Entry {
    std::shared_ptr<Generation> generation;
    SequenceState state;         // as the scheduler was last told
    int64_t first_token_us = 0;  // predicted when it came
  };

  explicit AdmissionQueue(int32_t capacity);

  // Moves the entry in. kResourceExhausted when full, kUnavailable when closed: it is untouched
  // then.
  Status Push(Entry& entry);
  // Refuses all later pushes.
  void Close();
  int32_t size() const;

  // The rest is for the taking thread. Only it removes: what it saw stays where it was.
  // Moves the entries at these places, ascending, to `taken`, which has room for them.
  void Take(std::span<const int32_t> places, std::vector<Entry>& taken);

  // Moves the entries for which `matches` is true to `taken`, which has room for them.
  template <class Predicate>
  void TakeIf(Predicate matches, std::vector<Entry>& taken) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](Entry& entry) {
      if (!matches(entry)) return false;
      taken.push_back(std::move(entry));
      return true;
    });
  }

  template <class Visitor>
  void ForEach(Visitor visit) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) visit(entry);
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  bool closed_ = false;
};

}  // namespace remontoir
