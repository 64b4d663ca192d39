// Intrinsics of x86: the compiler's or, with REMONTOIR_THROUGH_SIMDE, SIMDe's for what is beyond
// AVX2.
#pragma once

#include <immintrin.h>

#ifdef REMONTOIR_THROUGH_SIMDE
#include "kernels/intrinsics_simde.h"
#endif
