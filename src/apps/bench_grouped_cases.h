// Products of experts beside dense ones of the same rows and bytes, as the back end runs them.
#pragma once

#include <vector>

#include "apps/bench_kernel_cases.h"

namespace remontoir {

// Pairs of "dense_product" and "grouped_product" with the same type and shape.
std::vector<KernelCase> GroupedCases();

}  // namespace remontoir
