// `remontoir serve`: an OpenAI-compatible server until it is told to stop.
#pragma once

#include "apps/command_line.h"
#include "base/status.h"

namespace remontoir {

// Listens at once (503 while the model loads) and returns after SIGINT or SIGTERM, when the running
// answers have ended; a second signal doesn't wait for them.
Status Serve(const ServeOptions& options);

}  // namespace remontoir
