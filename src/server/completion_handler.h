// POST /v1/completions: from the body to a plan.
#pragma once

#include <string_view>

#include "server/generation_plan.h"

namespace remontoir {

PlanOrError PlanCompletion(std::string_view body, const ServedModel& model,
                           const PlanInputs& inputs);

}  // namespace remontoir
