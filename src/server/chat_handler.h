// POST /v1/chat/completions: from the body to a plan.
#pragma once

#include <string_view>

#include "server/generation_plan.h"

namespace remontoir {

PlanOrError PlanChat(std::string_view body, const ServedModel& model, const PlanInputs& inputs);

}  // namespace remontoir
