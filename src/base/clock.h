// Time as a value: code that decides gets a TimePoint; only the outermost loops read a Clock.
#pragma once

#include <compare>
#include <cstdint>

namespace remontoir {

// Microseconds since an arbitrary start; never goes back.
struct TimePoint {
  int64_t us = 0;
  friend auto operator<=>(const TimePoint&, const TimePoint&) = default;
};

inline int64_t ElapsedUs(TimePoint from, TimePoint to) { return to.us - from.us; }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // Seconds since 1970, for `created` fields and logs.
  virtual int64_t UnixSeconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override;
  int64_t UnixSeconds() const override;
};

// Stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  int64_t UnixSeconds() const override { return now_.us / 1'000'000; }
  void AdvanceUs(int64_t us) { now_.us += us; }

 private:
  TimePoint now_;
};

}  // namespace remontoir
