// The namespace of the words and kernels that are compiled twice: for the processor that has the
// instructions, and through SIMDe for tests on one that lacks them. Both can be linked together.
#pragma once

#ifdef REMONTOIR_THROUGH_SIMDE
#define REM_WORDS through_simde
#else
#define REM_WORDS native
#endif
