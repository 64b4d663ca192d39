// A request as a trace tells of it: when it came and how long it was.
#pragma once

#include <cstdint>

namespace remontoir {

struct Arrival {
  int64_t t_us = 0;  // since the start of the trace
  int32_t prompt_tokens = 1;
  int32_t output_tokens = 1;

  friend bool operator==(const Arrival&, const Arrival&) = default;
};

}  // namespace remontoir
