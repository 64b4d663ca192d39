// Which neighbouring operations of a program run as one step, so that values are used while in
// cache.
#pragma once

#include <cstddef>

#include "backend/program.h"

namespace remontoir {

// The gate that directly follows product `index` (dense or grouped) and takes its two outputs, if
// nothing else reads the second one: then only the gate's result need ever be written. Null if
// none.
const GatedActivationOp* GateOfProduct(const Program& program, size_t index);

// The norm over whole rows that directly follows sum `index` and reads it. Null if none.
const NormOp* NormOfSum(const Program& program, size_t index);

}  // namespace remontoir
