// What a simulated machine can do: its costs, slots and limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "scheduler/cost_model.h"

namespace remontoir {

struct Machine {
  CostModel costs;
  int32_t slots = 8;
  int32_t round_tokens_max = 4096;
  int32_t queue_max = 65'536;
};

// "cpu": a small model on two cores, 8 slots. "gpu": 32 slots of something fast. Both are
// assumptions. kNotFound for another name.
Result<Machine> MachineNamed(std::string_view name);

}  // namespace remontoir
