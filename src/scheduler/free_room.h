// Room and slots while a round is planned: what is free, less what those who join take.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace remontoir {

// The smallest class with a place that holds so many tokens; null: none has one. Lengths ascend.
inline RoomClass* FindClass(std::span<RoomClass> classes, int64_t tokens) {
  const auto found = std::ranges::find_if(classes, [tokens](const RoomClass& room) {
    return room.tokens >= tokens && room.places_free > 0;
  });
  return found == classes.end() ? nullptr : &*found;
}

class FreeRoom {
 public:
  explicit FreeRoom(const SchedulerState& state)
      : pages_(state.pages_free),
        dynamic_pages_(state.dynamic_pages_free),
        segments_(state.segments_free),
        class_count_(static_cast<int32_t>(state.classes.size())) {
    REM_CHECK(state.classes.size() <= classes_.size(), "a bounded number of classes");
    for (int32_t i = 0; i < class_count_; ++i) classes_[i] = state.classes[i];
  }

  bool TryTake(const RoomNeed& need) {
    if (need.pages > pages_ || need.dynamic_pages > dynamic_pages_) return false;
    if (need.segments > segments_) return false;
    if (need.tokens > 0) {
      RoomClass* const found =
          FindClass(std::span(classes_).first(static_cast<size_t>(class_count_)), need.tokens);
      if (found == nullptr) return false;
      --found->places_free;
    }
    pages_ -= need.pages;
    segments_ -= need.segments;
    // Where the next row of pages lies isn't known until this one is taken.
    if (need.dynamic_pages > 0) dynamic_pages_ = 0;
    return true;
  }

 private:
  int32_t pages_;
  int32_t dynamic_pages_;
  int32_t segments_;
  const int32_t class_count_;
  std::array<RoomClass, kRoomClassesMax> classes_;
};

}  // namespace remontoir
