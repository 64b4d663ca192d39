// The products of AVX-VNNI for processors that have its instruction in AVX-512's encoding only: the
// rest of the file is AVX2, so that what it shares with the AVX2 kernels runs everywhere.
#include "kernels/byte_words_avxvnni.h"
#include "kernels/install.h"
#include "kernels/matmul_quantised.h"

namespace remontoir {
namespace {

struct Evex {
  static __m256i Dot(__m256i sum, __m256i weights, __m256i four) {
    __asm__("%{evex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(four));
    return sum;
  }
};

}  // namespace

void InstallEvexVnniProducts(KernelTable* table) {
  using Words = AvxVnniByteWords<Evex>;
  QuantisedProducts<Words, DotBlock<Words>>::Install(table);
}

}  // namespace remontoir
