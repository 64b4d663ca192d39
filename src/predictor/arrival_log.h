// A log of arrivals: when requests came and how long they were, and nothing of what they said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace remontoir {

inline constexpr int kClientCells = 64;   // clients are hashed into so many cells
inline constexpr int kDeviceClasses = 4;  // kinds of devices that a log tells apart
inline constexpr int kUnknownClass = -1;  // a cell or device that nobody gave

struct LoggedArrival {
  int64_t t_us = 0;  // since the log's own start, or since 1970 (see ArrivalLog::HasWallClock)
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  int32_t client_cell = kUnknownClass;  // below kClientCells
  int32_t device = kUnknownClass;       // below kDeviceClasses
};

struct ArrivalLog {
  std::vector<LoggedArrival> arrivals;  // sorted by t_us
  bool has_clients = false;             // the log has a column of cells
  bool has_devices = false;

  int64_t SpanUs() const {
    return arrivals.empty() ? 0 : arrivals.back().t_us - arrivals.front().t_us;
  }
  // Times of the year 2001 and later, counted from 1970: then hours of the day mean something.
  bool HasWallClock() const {
    return !arrivals.empty() && arrivals.front().t_us >= 1'000'000'000'000'000;
  }
};

// Reads CSV (a line of column names first) or JSON lines (an object a line): t_us, prompt_tokens,
// output_tokens and maybe client_cell (or `client`, taken modulo 64) and device; other columns are
// passed over. Errors name `name` and the line: no number, out of range, or earlier than the line
// before.
Result<ArrivalLog> ParseArrivalLog(std::string_view text, const std::string& name);

// The same from a file.
Result<ArrivalLog> ReadArrivalLog(const std::string& path);

}  // namespace remontoir
