// How much memory a program's activations will take, before any weight is there.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/program.h"
#include "tensor/kv_layout.h"

namespace remontoir {

// A bound of Backend::activation_bytes() after Prepare with these arguments: what it is when every
// product reads 8-bit activations (`float32`: none does). workers are the backend's threads. At
// most INT64_MAX.
int64_t ActivationBytesMax(const Program& program, const KvLayout& layout,
                           const RoundLimits& limits, int32_t workers, bool float32);

}  // namespace remontoir
