// Whether an activation is what an operation wants; errors name it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cpu_step.h"
#include "base/status.h"

namespace remontoir {

const char* SpaceName(RowSpace space);  // "token", "expert", "logit"

// "activation queries: token rows of 64 values, wanted ..."
Status Misfit(const ActivationMatrix& activation, const std::string& wanted);

Status CheckFit(const ActivationMatrix& activation, RowSpace space, int64_t width);

// The values of a head, at least `width`, in an activation that its heads share evenly.
Result<int64_t> HeadRun(const ActivationMatrix& activation, int32_t heads, int64_t width);

}  // namespace remontoir
