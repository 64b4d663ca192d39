// Register-only loops of the instructions that the AVX2 kernels stand on. They are written in
// assembly: a compiler's moves and spills would make a peak of what isn't one.
#include "bench/peaks.h"

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace remontoir {
namespace {

constexpr int64_t kSteps = 100000;
constexpr int kChains = 10;  // independent sums: at least latency times issue width
constexpr int kRounds = 50;

// Time of this thread only: other load must not lower a peak.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The best rate in 10^9 operations a second of a loop that does `operations` on each of its sums.
double BestRate(double operations, void (*loop)()) {
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double begin = ThreadSeconds();
    loop();
    best = std::max(best, operations * kChains * kSteps / (ThreadSeconds() - begin) * 1e-9);
  }
  return best;
}

}  // namespace

// STEP is the work on one sum, ymm0 ... ymm9; ymm13 is free, ymm14 and ymm15 are zero.
#define REM_TEN_CHAINS(STEP)                                                                \
  [] {                                                                                      \
    int64_t count = kSteps;                                                                 \
    asm volatile(                                                                         \
        "vzeroall\n"                                                                      \
        "1:\n" STEP("%%ymm0") STEP("%%ymm1") STEP("%%ymm2") STEP("%%ymm3") STEP("%%ymm4") \
            STEP("%%ymm5") STEP("%%ymm6") STEP("%%ymm7") STEP("%%ymm8") STEP("%%ymm9")    \
        "dec %0\n"                                                                        \
        "jnz 1b\n"                                                                        \
        "vzeroupper\n"                                                                    \
        : "+r"(count)                                                                     \
        :                                                                                 \
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",   \
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"); \
  }

#define REM_FMA(sum) "vfmadd231ps %%ymm14, %%ymm15, " sum "\n"
#define REM_INT8(sum)                      \
  "vpmaddubsw %%ymm14, %%ymm15, %%ymm13\n" \
  "vpmaddwd %%ymm14, %%ymm13, %%ymm13\n"   \
  "vpaddd %%ymm13, " sum ", " sum "\n"
#define REM_INT4(sum)                      \
  "vpmaddubsw %%ymm14, %%ymm15, %%ymm13\n" \
  "vpaddw %%ymm13, " sum ", " sum "\n"

double FmaPeak() { return BestRate(16, REM_TEN_CHAINS(REM_FMA)); }

double Int8Peak() { return BestRate(64, REM_TEN_CHAINS(REM_INT8)); }

double Int4Peak() { return BestRate(64, REM_TEN_CHAINS(REM_INT4)); }

}  // namespace remontoir
