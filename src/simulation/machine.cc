// The two assumed machines.
#include "simulation/machine.h"

#include <string>

namespace remontoir {

Result<Machine> MachineNamed(std::string_view name) {
  if (name == "cpu") return Machine{};
  if (name == "gpu") {
    return Machine{.costs = {.round_us = 14'000,
                             .prefill_token_us = 50,
                             .decode_row_us = 100,
                             .decode_key_us = 0.04,
                             .prefill_key_us = 0.0016},
                   .slots = 32};
  }
  return NotFound(std::string(name) + ": is no machine: cpu or gpu");
}

}  // namespace remontoir
