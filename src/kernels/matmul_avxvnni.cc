// Products of quantised weights with AVX-VNNI, where the compiler knows it.
#include "kernels/byte_words_avxvnni.h"
#include "kernels/install.h"
#include "kernels/matmul_quantised.h"

namespace remontoir {
inline namespace REM_WORDS {

#if defined(__AVXVNNI__) || defined(REMONTOIR_THROUGH_SIMDE)

namespace {

struct Vex {
  static __m256i Dot(__m256i sum, __m256i weights, __m256i four) {
    return _mm256_dpbusd_avx_epi32(sum, weights, four);
  }
};

}  // namespace

bool InstallAvxVnniProducts(KernelTable* table) {
  using Words = AvxVnniByteWords<Vex>;
  QuantisedProducts<Words, DotBlock<Words>>::Install(table);
  return true;
}

#else

bool InstallAvxVnniProducts(KernelTable*) { return false; }

#endif

}  // namespace REM_WORDS
}  // namespace remontoir
