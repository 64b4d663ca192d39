// GET /model_info, /server_info and /v1/engine/plan: what is asked of a server about itself.
#pragma once

#include <string>

#include "server/served_model.h"

namespace remontoir {

std::string ModelInfo(const ServedModel& model);
// `version` is the server's.
std::string ServerInfo(const ServedModel& model, const std::string& version);

// How much memory everything has, in which classes, and what became of it at start.
std::string PlanInfo(const EnginePlan& plan);

}  // namespace remontoir
