// The flags of `remontoir simulate`.
#pragma once

#include "simulation/simulate.h"

namespace CLI {
class App;
}

namespace remontoir {

void AddSimulateFlags(CLI::App& command, SimulateOptions& options);

}  // namespace remontoir
