// How much of the time new work takes up.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace remontoir {

// The work of arrivals of late, fading over kMemoryUs, as a share of the time.
class ArrivalLoad {
 public:
  void Add(TimePoint now, double work_us) {
    work_us_ = Faded(now) + work_us;
    at_ = now;
  }
  double Share(TimePoint now) const { return Faded(now) / kMemoryUs; }

 private:
  static constexpr double kMemoryUs = 10e6;

  double Faded(TimePoint now) const {
    return work_us_ * std::exp(-static_cast<double>(ElapsedUs(at_, now)) / kMemoryUs);
  }

  double work_us_ = 0;
  TimePoint at_;
};

}  // namespace remontoir
