// The kernel tables that tests of kernels compare.
#pragma once

#include <vector>

#include "kernels/kernel_table.h"

namespace remontoir {

// The AVX-VNNI and AVX-512 kernels in AVX2, by SIMDe: the product's sources compiled once more, so
// that their bits can be checked where the instructions are missing. Null without AVX2.
const KernelTable* AvxVnniKernelsThroughSimde();
const KernelTable* Avx512KernelsThroughSimde();

// The tables that this processor runs, the scalar one first and those through SIMDe last.
std::vector<const KernelTable*> RunnableTables();

}  // namespace remontoir
