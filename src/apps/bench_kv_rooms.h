// From admission to usable room: the arena's way and the system's, measured in turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace remontoir {

// Microseconds of many preparations.
struct RoomTimes {
  int32_t count = 0;
  double median_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

struct RoomRow {
  std::string shape;
  int32_t tokens = 0;
  int64_t bytes = 0;
  bool fits = true;  // false: left out
  RoomTimes bucketed;
  RoomTimes dynamic;

  // Of the dynamic time, saved.
  double saved() const { return 1 - bucketed.median_us / dynamic.median_us; }
};

// rounds: preparations by the system for each length; by the arena forty times as many.
Result<std::vector<RoomRow>> MeasureRooms(int32_t rounds);

}  // namespace remontoir
