// GET /model_info and /server_info: what routers ask a worker about itself.
#pragma once

#include <string>

#include "server/served_model.h"

namespace remontoir {

std::string ModelInfo(const ServedModel& model);
// `version` is the server's.
std::string ServerInfo(const ServedModel& model, const std::string& version);

}  // namespace remontoir
